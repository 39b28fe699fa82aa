#!/usr/bin/env bash
# patch-template.sh TEMPLATE: adapts the controller's nginx template to Debian's nginx. Every edit must match
# exactly once, so that another version of the template fails here and not at run time.
set -euo pipefail

template="$1"

expect_one() {
    local found
    found="$(grep -cE -- "$1" "$template" || true)"
    if [[ "$found" != 1 ]]; then
        echo "patch-template: expected one line like '$1' in $template, found $found" >&2
        exit 1
    fi
}

# Debian's modules are loaded at run time.
expect_one '^pid \{\{ \.PID \}\};$'
sed -i 's#^pid {{ \.PID }};$#&\ninclude /etc/nginx/modules-enabled/*.conf;#' "$template"

# Debian has no Lua for the stream module, so TCP and UDP services are not available. The controller still connects
# to this port once at its start, so a server must accept the connection.
expect_one '^stream \{$'
sed -i '/^stream {$/,/^}$/d' "$template"
expect_one '^    # default server, used for NGINX healthcheck'
sed -i 's|^    # default server, used for NGINX healthcheck.*|    server {\n        listen 127.0.0.1:{{ .StreamPort }};\n        access_log off;\n        return 404;\n    }\n\n&|' "$template"
