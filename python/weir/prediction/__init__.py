"""What a program's next run will create, from what its past runs created."""
