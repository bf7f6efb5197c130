"""Untrusted implementations are run in a process of their own and watched."""
