# The server gets the hash of the password on its standard input: neither arguments nor files hold the password.
set -eu
hash=$(sha256sum </etc/shortener/credentials/password)
exec valkey-server /etc/shortener/config/valkey.conf - <<USERS
user default on #${hash%% *} ~* &* +@all
USERS
