//! The message about an event, and its signature.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::Serialize;
use sha2::Sha256;

use super::secrets::WebhookSecret;
use crate::store::webhooks::Due;

/// The body of a message.
#[derive(Debug, Serialize)]
struct Body<'a> {
    /// The kind of event.
    r#type: &'a str,
    /// The time of the event.
    timestamp: Timestamp,
    data: Data<'a>,
}

/// The link as it is now. It names no person.
#[derive(Debug, Serialize)]
struct Data<'a> {
    code: &'a str,
    short_url: String,
    /// The destination while the link leads there; null once it is disabled, expired or deleted.
    url: Option<&'a str>,
    created_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
}

/// A message that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The identity, which is the same at every attempt.
    pub id: String,
    /// The time of the attempt, in seconds since 1970.
    pub timestamp: i64,
    pub body: Vec<u8>,
}

impl Message {
    /// Returns the message about an event. `public_base` is the public URL without a slash at its end.
    ///
    /// # Errors
    /// Fails if the body cannot be written as JSON.
    pub fn of(due: &Due, public_base: &str) -> Result<Self, serde_json::Error> {
        let body = Body {
            r#type: &due.event,
            timestamp: due.at,
            data: Data {
                code: &due.code,
                short_url: format!("{public_base}/{}", due.code),
                url: due.url.as_deref(),
                created_at: due.created_at,
                expires_at: due.expires_at,
            },
        };
        Ok(Self {
            id: format!("msg_{}", due.message_id.simple()),
            timestamp: due.now.as_second(),
            body: serde_json::to_vec(&body)?,
        })
    }

    /// Returns the signatures with these secrets, as the header `webhook-signature` has them.
    pub fn signatures(&self, secrets: &[WebhookSecret]) -> String {
        let signatures = secrets.iter().filter_map(|secret| self.signature(secret));
        signatures.collect::<Vec<_>>().join(" ")
    }

    /// HMAC takes keys of every length, so there always is a signature.
    fn signature(&self, WebhookSecret(secret): &WebhookSecret) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
        mac.update(format!("{}.{}.", self.id, self.timestamp).as_bytes());
        mac.update(&self.body);
        let digest = mac.finalize().into_bytes();
        Some(format!("v1,{}", STANDARD.encode(digest)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn due() -> Due {
        Due {
            id: 7,
            message_id: Uuid::nil(),
            event: "link.created".to_owned(),
            code: "k7Qm2xB".to_owned(),
            at: Timestamp::from_second(1_700_000_000).unwrap(),
            attempts: 0,
            lease: Timestamp::UNIX_EPOCH,
            now: Timestamp::from_second(1_700_000_007).unwrap(),
            url: Some("https://example.com/".to_owned()),
            created_at: Some(Timestamp::from_second(1_700_000_000).unwrap()),
            expires_at: None,
        }
    }

    #[test]
    fn a_message_has_the_link_and_the_time_of_the_attempt() {
        let message = Message::of(&due(), "https://go.example.com").unwrap();
        assert_eq!(message.id, "msg_00000000000000000000000000000000");
        assert_eq!(message.timestamp, 1_700_000_007);
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        let expected = json!({
            "type": "link.created",
            "timestamp": "2023-11-14T22:13:20Z",
            "data": {
                "code": "k7Qm2xB",
                "short_url": "https://go.example.com/k7Qm2xB",
                "url": "https://example.com/",
                "created_at": "2023-11-14T22:13:20Z",
                "expires_at": null
            }
        });
        assert_eq!(body, expected);
    }

    /// The example in the specification of Standard Webhooks.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message = Message {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            timestamp: 1_614_265_330,
            body: br#"{"test": 2432232314}"#.to_vec(),
        };
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let secrets = [WebhookSecret(secret.clone()), WebhookSecret(secret)];
        assert_eq!(message.signatures(&secrets[..1]), expected);
        let both = message.signatures(&secrets);
        assert_eq!(both, format!("{expected} {expected}"));
    }
}
