#!/usr/bin/env bash
# Starts the server with the contract of the public image: in the folder of its program, with every argument.
exec ./qdrant "$@"
