"""Running graphs: the store that holds every finished run, and the engines that fill it."""
