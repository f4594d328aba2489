#!/usr/bin/env python3
"""The manifests of deploy/kubernetes as podman can play them.

pods.py secret OWNER_URL DATABASE_URL REDIS_URL SECRET  the Secret, as `podman secret create` takes it
pods.py settings                                    the ConfigMap that kustomize makes of settings.env
pods.py pod NAME MANIFEST                           its template, as a Pod of this name
pods.py probes MANIFEST                             the paths that are probed, one a line

podman knows no Job and no controller, and asks HTTP probes at port 0: so it is a Pod, and run.sh probes. It
also takes a port of a container for one of the machine.
"""

import base64
import json
import sys

import yaml

word, *arguments = sys.argv[1:]
if word == "secret":
    values = dict(zip(("owner-database-url", "database-url", "redis-url", "secret"), arguments), sms="log")
    print(json.dumps({key: base64.b64encode(value.encode()).decode() for key, value in values.items()}))
elif word == "settings":
    with open("deploy/kubernetes/settings.env") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    data = dict(line.split("=", 1) for line in lines)
    print(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seckill-settings"}, "data": data}))
else:
    with open(arguments[-1]) as file:
        template = yaml.safe_load(file)["spec"]["template"]
    container = template["spec"]["containers"][0]
    probes = [container.pop(name, None) for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    container.pop("ports", None)
    if word == "probes":
        print("\n".join(sorted({probe["httpGet"]["path"] for probe in probes})))
    else:
        template["metadata"]["name"] = arguments[0]
        template["spec"].setdefault("restartPolicy", "Never")
        print(json.dumps({"apiVersion": "v1", "kind": "Pod", **template}))
