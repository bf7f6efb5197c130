"""How functions, modules and peers are called in one way."""
