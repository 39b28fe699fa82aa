# The server reads the hash of the password from its standard input. Neither arguments nor files contain the password.
set -eu
hash=$(sha256sum </etc/shortener/credentials/password)
exec valkey-server /etc/shortener/config/valkey.conf - <<USERS
user default on #${hash%% *} ~* &* +@all
USERS
