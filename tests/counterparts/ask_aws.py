"""Calls AWS by its official client, boto3: reads one JSON request from standard input, prints one JSON answer.

Request: endpoint, ca (file), region, id and secret (of an access key), calls ([[service, operation, arguments], …]).
Answer: a list, for each call {"ok": reply} or {"error": code}. Nothing is tried twice.
"""

import base64
import datetime
import functools
import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"{type(value)} in a reply")


@functools.cache
def client(service):
    return boto3.client(
        service,
        endpoint_url=asked["endpoint"],
        region_name=asked["region"],
        aws_access_key_id=asked["id"],
        aws_secret_access_key=asked["secret"],
        verify=asked["ca"],
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


def call(service, operation, arguments):
    try:
        reply = getattr(client(service), operation)(**arguments)
    except ClientError as error:
        return {"error": error.response["Error"]["Code"]}
    reply.pop("ResponseMetadata", None)
    return {"ok": reply}


asked = json.load(sys.stdin)
print(json.dumps([call(*each) for each in asked["calls"]], default=plain))
