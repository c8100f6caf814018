ncdump 2>&1 | head -1
