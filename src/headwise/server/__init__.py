"""The page's server: starlette on loopback. What it answers is written down in README.md beside this file.

The way of a request: `guard` (who may ask), `app` (which route), one of the route files (`runs`, `edits`, `job_routes`, `about`), and `answers` (JSON, or
numbers in one binary format). What takes time runs in threads (`work`) or in a process (`worker`): the event loop only waits.
"""
