//! A receiver of webhooks: a server with TLS and a certificate of its own.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use rcgen::generate_simple_self_signed;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::Value;
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};
use tokio_rustls::TlsAcceptor;

/// What a receiver answers.
pub enum Answer {
    /// This status line, and further header fields.
    Head(&'static str),
    /// Nothing.
    Never,
}

/// A request as received.
#[derive(Debug)]
pub struct Received {
    pub head: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns true if one of the signatures is that of this secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(&secret["whsec_".len()..]).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        let (id, at) = (
            &self.headers["webhook-id"],
            &self.headers["webhook-timestamp"],
        );
        mac.update(format!("{id}.{at}.").as_bytes());
        mac.update(&self.body);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let mut found = self.headers["webhook-signature"].split(' ');
        found.any(|signature| signature == expected)
    }
}

/// A running receiver.
pub struct Receiver {
    pub address: SocketAddr,
    pub certificate: CertificateDer<'static>,
    requests: UnboundedReceiver<Received>,
}

impl Receiver {
    /// Starts a receiver that answers each request by its number, from 0 on.
    pub async fn start(answer: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let identity = generate_simple_self_signed(names).unwrap();
        let certificate = identity.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (publish, requests) = mpsc::unbounded_channel();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answer(number);
                tokio::spawn(serve(stream, acceptor.clone(), answer, publish.clone()));
            }
        });
        Self {
            address,
            certificate,
            requests,
        }
    }

    /// Returns the authorities that a sender to this receiver trusts.
    pub fn authorities(&self) -> RootCertStore {
        let mut authorities = RootCertStore::empty();
        authorities.add(self.certificate.clone()).unwrap();
        authorities
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}/hook", self.address.port())
    }

    /// Waits for the next request.
    pub async fn next(&mut self) -> Received {
        self.requests.recv().await.unwrap()
    }

    /// Returns true if there was no further request.
    pub fn is_quiet(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}

/// Serves one request. The connection ends with it, so that each request has a number.
async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    answer: Answer,
    publish: UnboundedSender<Received>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut bytes = Vec::new();
    let received = loop {
        if let Some(received) = parse(&bytes) {
            break received;
        }
        if stream
            .read_buf(&mut bytes)
            .await
            .is_ok_and(|read| read == 0)
        {
            return;
        }
    };
    let _ = publish.send(received);
    match answer {
        Answer::Never => std::future::pending().await,
        Answer::Head(head) => {
            let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Received> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (head, fields) = text.split_once("\r\n")?;
    let fields = fields.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = fields.collect();
    let length: usize = headers["content-length"].parse().unwrap();
    let body = bytes.get(end + 4..end + 4 + length)?.to_vec();
    Some(Received {
        head: head.to_owned(),
        headers,
        body,
    })
}
