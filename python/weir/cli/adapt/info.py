"""`weir adapt info`: the variables or steps of a stream, or the accuracy of one step."""

from typing import TYPE_CHECKING

import click

from weir.cli.adapt import named as by_name
from weir.cli.adapt.steps import TIER
from weir.cli.common.errors import say, warn
from weir.cli.common.output import output_option, show, size

if TYPE_CHECKING:
    from weir.adaptive.catalogue import Catalogue
from weir.cli.adapt.manifests import document, steps_table


@click.command(name="info")
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option("--step", "number", type=click.IntRange(0), help="Show the accuracy of this step by bytes read.")
@output_option
def show_stream(tiers: tuple[str, ...], number: int | None, output: str) -> None:
    """Show the variables or steps of a stream, or the accuracy of one step by the bytes read.

    The first tier is enough, because it names the others. A variable's own stream lies in a folder with the
    variable's name.
    """
    from weir.adaptive.catalogue import complete
    from weir.adaptive.contents import accuracies

    if number is None and by_name.holds_names(tiers):
        _show_variables(tiers, output)
        return
    places, catalogue = complete(tiers)
    if number is None:
        _show_steps(catalogue, output)
        return
    lines = accuracies(places, number, catalogue.meaning)
    header = ("BYTES", "TIER", "RMSE", "MAX ERROR", "BOUNDS")
    bounds = {True: "measured", False: "derived"}
    rows = [
        (size(line["bytes"]), line["tier"], f"{line['rmse']:.6g}", f"{line['max_error']:.6g}", bounds[line["measured"]])
        for line in lines
    ]
    show(output, lines, header, rows)


def _show_variables(tiers: tuple[str, ...], output: str) -> None:
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.named.summary import held_by

    with DatasetReader(tiers) as reader:
        document, rows = by_name.table_of(held_by(reader))
    show(output, document, by_name.HEADER, rows)


def _show_steps(catalogue: "Catalogue", output: str) -> None:
    from weir.adaptive.contents import manifest_of
    from weir.adaptive.errors import StepError

    manifests = []
    for each in catalogue.look()[0]:
        try:
            manifests.append(manifest_of(catalogue.place, each))
        except StepError as error:
            warn(str(error))
    nodes = catalogue.stream.nodes
    show(output, [document(each, nodes) for each in manifests], *steps_table(manifests, nodes))
    if output == "table":
        say(_told(catalogue))


def _told(catalogue: "Catalogue") -> str:
    """Describe the common properties of all steps, in a line."""
    stream = catalogue.stream
    kept = "exact" if stream.exact else f"tolerance {'the least' if stream.tolerance is None else stream.tolerance}"
    mesh = "" if stream.nodes is None else f", on a mesh of {stream.nodes} nodes ({catalogue.place.name(stream.mesh)})"
    tiers = ", ".join(f"{zone}={url}" for url, zone in stream.tiers)
    return f"{stream.codec}, {kept}{mesh}, {'ended' if catalogue.look()[1] else 'not ended'}; {tiers}"
