"""Hugging Face `config.json` to `Model`: one small class per family, exact to the last parameter or refused."""
