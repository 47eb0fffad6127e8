#!/usr/bin/env python3
"""Holds data at s3:// to another implementation of S3: moto's server, with the
objects written by boto3. The same samples have to give the same weights as
from files. Both are looked for where this Python finds packages:

    python3 -m venv build/moto && build/moto/bin/pip install 'moto[s3,server]'
    TROUPE=build/release/apps/troupe build/moto/bin/python tests/peers/s3_moto.py

Status: 0 equal, 1 not, 77 moto is not installed.
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "process"))

try:
    import boto3
    import moto.server  # noqa: F401: that it is there
except ImportError as missing:
    print(f"skipped: {missing}; pip install 'moto[s3,server]'")
    sys.exit(77)

from cluster import wait_for  # noqa: E402
import stores_test as stores  # noqa: E402

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "eu-west-1"}


def main():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    place = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def answers():
            with socket.socket() as attempt:
                return attempt.connect_ex(("127.0.0.1", port)) == 0
        wait_for(answers, "moto's server")
        return compare(place)
    finally:
        server.terminate()
        server.wait(10)


def compare(place):
    os.environ.update(KEYS, AWS_ENDPOINT_URL=place)
    client = boto3.client("s3", endpoint_url=place, region_name="eu-west-1",
                          aws_access_key_id="testing",
                          aws_secret_access_key="testing")
    client.create_bucket(Bucket="bucket", CreateBucketConfiguration={
        "LocationConstraint": "eu-west-1"})
    files = stores.made_files()
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TROUPE_CACHE"] = folder + "/cache"
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
            client.put_object(Bucket="bucket", Key="set a+ü/" + name,
                              Body=data)
        # More than a page of a listing.
        for i in range(1100):
            client.put_object(Bucket="bucket", Key=f"other/{i}", Body=b"")
        for kind, name in (("tfrecord", "part-*.tfrecord"),
                           ("tar", "pictures.tar" + stores.GREY),
                           ("csv", "table.csv?header=false")):
            wanted = stores.Stores.weights(f"{kind}:{folder}/{name}")
            ways = [(), stores.IN_FILES,
                    (*stores.IN_FILES, "--data-cache", folder + "/b:20M")]
            for way in ways[:1 if kind == "csv" else 3]:
                found = stores.Stores.weights(
                    f"{kind}:s3://bucket/set a+ü/{name}", *stores.ONE, *way)
                print(f"{kind:9} {' '.join(way)[:30]:30} {found[:16]} "
                      f"{'equal' if found == wanted else 'DIFFERS'}")
                differing += found != wanted
        line = subprocess.run(
            [stores.TROUPE, "data", "info", "--data",
             "csv:s3://bucket/other/*7"], capture_output=True, text=True,
            check=False).stderr
        print(line.strip())  # 110 empty objects: no samples
        differing += "holds no samples" not in line
        line = subprocess.run(
            [stores.TROUPE, "data", "info", "--data", "csv:s3://none/a.csv"],
            capture_output=True, text=True, check=False).stderr
        print(line.strip())
        differing += "404 NoSuchBucket" not in line
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
