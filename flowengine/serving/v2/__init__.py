"""The Open Inference Protocol with Triton's binary tensors: paths, requests and answers of `/v2/...`.

Parsers and writers know neither HTTP nor event loops: texts and bytes come in, arrays go out, and the other
way round. Errors have Triton's words where Triton has some, since clients look for them.
"""
