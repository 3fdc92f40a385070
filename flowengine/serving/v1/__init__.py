"""TensorFlow Serving's REST: paths, requests and answers of `/v1/models/...`.

Knows neither HTTP nor event loops: paths and bodies come in, arrays go out, and the other way round. Texts of
errors are those that TensorFlow Serving answers with, since clients look for them.
"""
