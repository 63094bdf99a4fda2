"""``tombola tasks``, ``models``, ``methods`` and ``recipes``: what there is to choose from."""

from __future__ import annotations

from tombola.cli import options


def tasks(as_json: options.Json = False) -> None:
    """List the tasks that ship, with their metrics and where their data come from."""
    from tombola.cli.printing import print_json, print_table
    from tombola.tasks.task import TASKS

    if as_json:
        print_json(
            [
                {
                    "name": task.name,
                    "kind": task.kind,
                    "labels": list(task.labels),
                    "metrics": list(task.metrics),
                    "about": task.about,
                    "notes": task.notes,
                }
                for task in TASKS.values()
            ]
        )
        return
    print_table(
        ("task", "metrics", "about"),
        [(task.name, ", ".join(task.metrics), task.about) for task in TASKS.values()],
    )
    print(
        "\nYour own: --data FILE --text COLUMN [--text-pair COLUMN] --label COLUMN (csv, tsv, jsonl, parquet)"
    )


def models(as_json: options.Json = False) -> None:
    """List the embedded models and the families that can be pruned."""
    from tombola.cli.printing import print_json, print_table
    from tombola.models.families import FAMILIES
    from tombola.models.resolve import EMBEDDED

    if as_json:
        print_json(
            {"embedded": {name: entry.about for name, entry in EMBEDDED.items()}, "families": list(FAMILIES)}
        )
        return
    print_table(("embedded", "about"), [(name, entry.about) for name, entry in EMBEDDED.items()])
    print(f"\nAny hub id or folder of these families: {', '.join(FAMILIES)}")


def methods(as_json: options.Json = False) -> None:
    """List the ways to find tickets."""
    from tombola.cli.printing import print_json, print_table
    from tombola.finding.methods import METHODS

    if as_json:
        print_json([{"name": m.name, "aliases": list(m.aliases), "about": m.about} for m in METHODS.values()])
        return
    print_table(
        ("method", "aliases", "about"), [(m.name, ", ".join(m.aliases), m.about) for m in METHODS.values()]
    )


def recipes(as_json: options.Json = False) -> None:
    """List the recipes that ship, and the studies that a recipe of one's own can be for."""
    from tombola.cli.printing import print_json, print_table
    from tombola.studies.registry import STUDIES, shipped_recipes

    found = shipped_recipes()
    if as_json:
        print_json([{"name": recipe.name, **recipe.settings} for recipe in found])
        return
    print_table(
        ("recipe", "study", "about"),
        [
            (recipe.name, recipe.kind.name, " ".join(recipe.settings.get("about", "").split()))
            for recipe in found
        ],
    )
    print(
        "\nRun one: tombola study RECIPE --data-dir GLUE; or write your own YAML file for one of these studies:"
    )
    for kind in STUDIES.values():
        print(f"  {kind.name}: {kind.about}")
