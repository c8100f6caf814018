"""What several commands share: options, words, tables and questions."""
