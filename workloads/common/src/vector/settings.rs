//! The settings of the vector store.

use clap::{ArgAction, Args};
use qdrant_client::qdrant::Distance;

use crate::{
    config::{VectorTlsFiles, given, port, url_of},
    tls::TlsSettings,
};

/// The gRPC port of Qdrant.
const PORT: u16 = 6334;

/// Address and collection of the vector store.
#[derive(Clone, Debug, Args)]
pub struct VectorArgs {
    /// `http[s]://host:6334` with the gRPC port; the vector profile is off without a URL or host.
    #[arg(long, env)]
    pub vector_url: Option<String>,
    /// Host name or address of the store, as an alternative to a URL.
    #[arg(long, env)]
    pub vector_host: Option<String>,
    /// gRPC port of the store, used with the host; 6334 by default.
    #[arg(long, env, value_parser = port)]
    pub vector_port: Option<u16>,
    /// URL or host that stands for the store in jobs, if not the address; the app and the workers have the same one.
    #[arg(long, env, hide_env_values = true)]
    pub vector_target: Option<String>,
    /// API key of the store.
    #[arg(long, env, hide_env_values = true)]
    pub vector_api_key: Option<String>,
    /// Uses TLS whatever the scheme of the URL is, and verifies the store's certificate.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub vector_tls: bool,
    /// The certificates.
    #[command(flatten)]
    pub tls: VectorTlsFiles,
    /// Name of the collection. Every stack needs its own, because all other points in it are removed.
    #[arg(long, env, default_value = "docs")]
    pub vector_collection: String,
    /// Number of dimensions of a vector.
    #[arg(long, env, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub vector_size: u32,
    /// Distance function of the collection: `Cosine`, `Dot` or `Euclid`.
    #[arg(long, env, default_value = "Cosine", value_parser = distance)]
    pub vector_distance: Distance,
}

impl VectorArgs {
    /// Returns the address of the store, or `None` if the vector profile is off.
    pub fn url(&self) -> Option<String> {
        let of_host = |host| url_of("http", host, self.vector_port.unwrap_or(PORT));
        let url = given(&self.vector_url).map(str::to_owned);
        let url = url.or_else(|| given(&self.vector_host).map(of_host))?;
        let plain = url.strip_prefix("http://");
        Some(match plain.filter(|_| self.tls_settings().is_on()) {
            Some(rest) => format!("https://{rest}"),
            None => url,
        })
    }

    /// Returns a URL of the store that is the same in every program that uses it.
    pub(super) fn target(&self) -> Option<String> {
        let Some(target) = given(&self.vector_target) else {
            return self.url();
        };
        Some(match target.contains("://") {
            true => target.to_owned(),
            false => url_of("http", target, PORT),
        })
    }

    /// Returns the settings of TLS.
    pub(super) fn tls_settings(&self) -> TlsSettings<'_> {
        self.tls.settings(self.vector_tls)
    }
}

fn distance(name: &str) -> Result<Distance, &'static str> {
    let known = [Distance::Cosine, Distance::Dot, Distance::Euclid];
    let found = known.into_iter().find(|known| known.as_str_name() == name);
    found.ok_or("must be Cosine, Dot or Euclid")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct ConnectionSettings {
        #[command(flatten)]
        vector: VectorArgs,
    }

    fn url(arguments: &[&str]) -> Option<String> {
        let program = ["program"];
        ConnectionSettings::parse_from(program.iter().chain(arguments))
            .vector
            .url()
    }

    #[test]
    fn a_store_has_the_address_of_its_url_or_of_its_host() {
        assert_eq!(url(&[]), None);
        assert_eq!(url(&["--vector-url", "", "--vector-host", ""]), None);
        let of_host = url(&["--vector-host", "a"]);
        assert_eq!(of_host.as_deref(), Some("http://a:6334"));
        let of_both = url(&["--vector-host", "a", "--vector-url", "https://b:1"]);
        assert_eq!(of_both.as_deref(), Some("https://b:1"));
        let over_tls = url(&["--vector-host", "a", "--vector-tls=true"]);
        assert_eq!(over_tls.as_deref(), Some("https://a:6334"));
        let authority = ["--vector-url=http://b:1", "--vector-tls-ca-file=/ca.crt"];
        assert_eq!(url(&authority).as_deref(), Some("https://b:1"));
    }
}
