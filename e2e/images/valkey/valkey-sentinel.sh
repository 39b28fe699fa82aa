#!/bin/sh
exec redis-sentinel "$@"
