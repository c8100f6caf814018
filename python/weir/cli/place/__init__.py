"""`weir place`: targets for the files of a program's next run."""
