"""Models behind HTTP: an application for ASGI servers, and `flowengine serve`.

`protocols/` reads requests and writes answers and knows neither HTTP nor trio. Loaded models, their versions
and batches are one trio program; the application reaches it by `flowengine.anyio`, under either event loop.
"""
