return require("resty.unavailable")("lua-resty-http", "OCSP stapling")
