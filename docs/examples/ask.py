"""Ask a service which digit is in a picture; wait for it up to ten seconds if it is just being started.

python ask.py http://127.0.0.1:8000/classify nine.png
"""

import json
import sys
import time
import urllib.error
import urllib.request

import numpy as np
from PIL import Image


def ask(url: str, body: bytes, patience_seconds: float = 10.0) -> str:
    """Return the service's answer to a request body, after its status code if that is an error."""
    end = time.monotonic() + patience_seconds
    while True:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, body, {"Content-Type": "application/json"})
            ) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    url, picture = sys.argv[1:]
    pixels = np.asarray(Image.open(picture).convert("L"))
    print(ask(url, json.dumps(pixels[np.newaxis, :, :, np.newaxis].tolist()).encode()).strip())
