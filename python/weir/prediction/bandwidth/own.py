"""A forecaster of one's own as a method: a plug-in of the kind `forecaster`."""

from weir.plugins.forecaster import CheckedForecaster
from weir.plugins.plugin import Plugin
from weir.prediction.bandwidth.history import Steps
from weir.prediction.bandwidth.method import Method, Prediction


class OwnMethod(Method):
    """The forecasts of a plug-in."""

    def __init__(self, plugin: Plugin) -> None:
        """Make the plug-in.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.name = plugin.name
        self._forecaster = CheckedForecaster(plugin)

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`.

        Raises:
            PluginError: The plug-in fails; its prediction raises it, too.
        """
        return self._forecaster.fit(steps.times, steps.values)
