"""Every message of the protocol, sent to a real server by a user with no right to its object, and the refusals."""

from _harness import told_by_test

PREFIX = "strangers: "


def measure() -> dict[str, float]:
    """Run the test that holds the table of rights, and take the counts it prints.

    Returns:
        `stranger_messages`, and how many of them were refused without any effect: `stranger_messages_refused`.

    Raises:
        RuntimeError: A message was neither refused nor without effect, or the test did not run.
    """
    name = "strangers::a_stranger_is_refused_by_every_message_and_changes_nothing"
    return told_by_test(name, PREFIX)
