"""What a person reads of a valuation: `findings` in words, `text` for the terminal."""
