# SPDX-License-Identifier: Apache-2.0
"""Runs in the root that llama_cpp.py makes: llama_cpp_inside.py MODEL LAYERS-ON-THE-CARD PORT.

Starts llama-server and asks it to go on with two prompts; a line of JSON has each answer."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

MODEL, LAYERS, PORT = sys.argv[1:]
LOG = open(f"/tmp/llama-server-{PORT}.log", "w", encoding="utf-8")
URL = f"http://127.0.0.1:{PORT}"
PROMPTS = [[1, 2, 3, 4, 5], [7, 8, 9, 10, 11, 12, 13], list(range(20, 60))]


def get(path, body=None):
    request = urllib.request.Request(URL + path, data=body and json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=200) as answer:
        return json.load(answer)


def wait(server):
    while server.poll() is None:
        try:
            return get("/health")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    return sys.exit(f"llama-server ended with {server.returncode}, see {LOG.name} in the root")


server = subprocess.Popen(["llama-server", "-m", MODEL, "-ngl", LAYERS, "--port", PORT, "--host",
                           "127.0.0.1", "-c", "256", "-t", "1"], stdout=subprocess.DEVNULL,
                          stderr=LOG)
try:
    wait(server)
    for prompt in PROMPTS:
        said = get("/completion", {"prompt": prompt, "n_predict": 12, "temperature": 0, "n_probs": 1,
                                   "return_tokens": True, "ignore_eos": True})
        print(json.dumps({"tokens": said["tokens"],
                          "likely": [one["logprob"] for one in said["completion_probabilities"]]}))
finally:
    server.terminate()
    server.wait()
