"""`weir config reference`: the reference page of all settings."""

import click


@click.command()
def reference() -> None:
    """Print the reference page of all settings, in Markdown."""
    from weir.store import settings

    print("# Settings\n")
    print("A flag beats the environment, the environment beats `cluster.toml`, the file beats the default.")
    print("`--home` also beats `WEIR_CLUSTER`, `WEIR_CREDENTIAL` and `WEIR_MOUNT`, which name a store, too.")
    print("A variable that is nearly a setting, such as `WEIR_POLICI`, is refused.")
    print("`weir config show --origin` shows the origin of each value. `weir config reference` prints this page.")
    for title, entries in (("A store (`weir up`)", settings.STORE), ("Programs that use a store", settings.CLIENT)):
        print(f"\n## {title}\n")
        print("| setting | flag | environment | key in `cluster.toml` | default | meaning |")
        print("|---|---|---|---|---|---|")
        for setting in entries:
            places = (setting.flag, setting.environment, setting.key, setting.default)
            cells = " | ".join(f"`{place}`" if place else "" for place in places)
            print(f"| {setting.name} | {cells} | {setting.meaning} |")
