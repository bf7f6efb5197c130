"""The page's server: starlette on loopback. README.md beside this file documents every route.

A request passes `guard` (who may ask), `app` (which route), one of the modules in `routes`, and `responses` (JSON, or arrays as safetensors). What takes time
runs in threads (`work.thread_pools`) or in a process (`work.worker_client`), so that the event loop only waits.
"""
