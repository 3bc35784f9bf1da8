"""Calls Hetzner Cloud by its official client, hcloud: reads one JSON request from standard input, prints one JSON answer.

Request: endpoint, token, do and its arguments. The trusted CA is in REQUESTS_CA_BUNDLE. Answer: {"ok": …} or
{"error": code}.
"""

import json
import sys

from hcloud import APIException, Client
from hcloud.images import Image
from hcloud.server_types import ServerType

asked = json.load(sys.stdin)
client = Client(
    token=asked["token"], api_endpoint=asked["endpoint"], poll_interval=0.05, poll_max_retries=2000, timeout=60
)


def shown(server):
    return {
        "id": str(server.id),
        "name": server.name,
        "status": server.status,
        "type": server.server_type.name,
        "image": server.image.name if server.image else None,
        "labels": server.labels or {},
    }


def servers():
    return [shown(server) for server in client.servers.get_all()]


def create(name, server_type, image, user_data):
    made = client.servers.create(
        name=name, server_type=ServerType(name=server_type), image=Image(name=image), user_data=user_data
    )
    made.action.wait_until_finished()
    return shown(client.servers.get_by_id(made.server.id))


def act(id, action):
    """power_on, power_off, reboot, reset, shutdown, delete."""
    server = client.servers.get_by_id(int(id))
    getattr(server, action)().wait_until_finished()


def server_types():
    return [each.name for each in client.server_types.get_all()]


try:
    answer = {"ok": globals()[asked["do"]](**asked.get("arguments", {}))}
except APIException as error:
    answer = {"error": str(error.code)}
print(json.dumps(answer))
