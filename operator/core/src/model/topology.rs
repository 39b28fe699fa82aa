//! The topology of a stack's broker: the queues, their limits, the users with their rights, and the definitions that a
//! managed broker imports at every start.
//!
//! The limits are policies and not arguments of the queues, so that they can change while the queues exist. Clients
//! declare queues without limits, so a changed limit never conflicts with a declaration.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Port of a broker's management API.
pub const MANAGEMENT_PORT: u16 = 15672;
/// Port of a broker's metrics.
pub const METRICS_PORT: u16 = 15692;
/// Name of the job queue.
pub const JOBS: &str = "jobs";
/// Name of the dead-letter queue.
pub const DEAD_LETTERS: &str = "jobs.dlq";
/// Name of the dead-letter exchange between the two.
const DEAD_LETTER_EXCHANGE: &str = "jobs.dlx";
/// Virtual host of the queues and the exchange.
const VHOST: &str = "/";
/// Maximum number of jobs in the queue. A full queue rejects further jobs, and the app answers 503.
const MAX_JOBS: u32 = 100_000;
/// Delivery limit of the dead-letter queue. Every read counts as a delivery, and RabbitMQ 4.0 or later deletes a
/// message after 20 deliveries if no limit is set.
const DEAD_LETTER_DELIVERY_LIMIT: u32 = 1_000_000_000;

/// The limits of a stack's queues that the spec sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of deliveries of a job.
    pub deliveries: i32,
    /// Maximum number of dead letters.
    pub dead_letters: i32,
    /// Maximum size of all dead letters together, in bytes of their bodies.
    pub dead_letter_bytes: u64,
}

/// A policy of the broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    pub name: String,
    /// Regular expression for the names of the queues.
    pub pattern: String,
    /// Kind of object that the policy applies to.
    pub apply_to: String,
    /// Priority; among several matching policies, the highest one applies.
    pub priority: i64,
    /// Settings by name.
    pub definition: Value,
}

/// Returns the policies of a stack.
pub fn policies(limits: QueueLimits) -> [Policy; 2] {
    let jobs = json!({
        // RabbitMQ counts redeliveries, which do not include the first delivery.
        "delivery-limit": limits.deliveries.saturating_sub(1).max(0),
        "dead-letter-exchange": DEAD_LETTER_EXCHANGE,
        // A job leaves its queue only after the dead-letter queue has it. This requires a queue that rejects messages
        // when it is full.
        "dead-letter-strategy": "at-least-once",
        "overflow": "reject-publish",
        "max-length": MAX_JOBS,
    });
    let dead_letters = json!({
        "delivery-limit": DEAD_LETTER_DELIVERY_LIMIT,
        "max-length": limits.dead_letters,
        "max-length-bytes": limits.dead_letter_bytes,
        // The oldest dead letters go first. If the queue rejected new ones instead, they would stay in the job queue
        // until that is full as well, and the app could accept no job.
        "overflow": "drop-head",
    });
    [
        policy("shortener-jobs", "^jobs$", jobs),
        policy("shortener-dead-letters", r"^jobs\.dlq$", dead_letters),
    ]
}

fn policy(name: &str, pattern: &str, definition: Value) -> Policy {
    Policy {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        apply_to: "queues".to_owned(),
        priority: 0,
        definition,
    }
}

/// The users of a managed broker. None of them is an administrator: `rabbitmqctl` in the broker's pod needs no user.
pub struct Users<'a> {
    /// User of the app and the workers, and of people.
    pub programs: User<'a>,
    pub operator: User<'a>,
}

/// A user of a managed broker.
pub struct User<'a> {
    pub name: Cow<'a, str>,
    pub password: &'a [u8],
    /// Salt of the password's hash: it stays the same as long as the password does.
    pub salt: [u8; 4],
}

/// The rights of a user: its tags for the management API, and regular expressions for the names of the objects that it
/// may configure, write and read.
struct Rights {
    tags: &'static [&'static str],
    configure: &'static str,
    write: &'static str,
    read: &'static str,
}

/// Rights of the programs, for what they declare and use. The default exchange takes jobs and replayed dead letters, and
/// binding a queue means writing to it. People and autoscalers use the management API with the same credentials.
const PROGRAMS: Rights = Rights {
    tags: &["management"],
    configure: DECLARED,
    write: r"^(amq\.default|jobs\.dlq)$",
    read: DECLARED,
};
/// Names of everything that the programs declare.
const DECLARED: &str = r"^jobs(\.dlq|\.dlx)?$";
/// Rights of the operator: it sees the figures of every user's objects and keeps the policies. Policies require a
/// permission for the virtual host, even one for nothing.
const OPERATOR: Rights = Rights {
    tags: &["monitoring", "policymaker"],
    configure: NOTHING,
    write: NOTHING,
    read: NOTHING,
};
/// Matches the name of no object.
const NOTHING: &str = "^$";

impl Users<'_> {
    /// Returns the users and their permissions in the form of definitions.
    fn definitions(&self) -> Value {
        let users = [(&self.programs, &PROGRAMS), (&self.operator, &OPERATOR)];
        let accounts = users.map(|(user, rights)| {
            json!({
                "name": user.name,
                "password_hash": password_hash(user.salt, user.password),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": rights.tags,
                "limits": {},
            })
        });
        let permissions = users.map(|(user, rights)| {
            json!({
                "user": user.name, "vhost": VHOST,
                "configure": rights.configure, "write": rights.write, "read": rights.read,
            })
        });
        json!({"users": accounts, "permissions": permissions})
    }
}

/// Renders the definitions of a managed broker as JSON, the same bytes for the same input. The broker imports them at
/// every start, so that the Secret is the source of truth for the passwords.
pub fn definitions(users: &Users<'_>, limits: QueueLimits) -> String {
    let policies: Vec<Value> = policies(limits)
        .iter()
        .map(|policy| {
            json!({
                "vhost": VHOST, "name": policy.name, "pattern": policy.pattern, "apply-to": policy.apply_to,
                "priority": policy.priority, "definition": policy.definition,
            })
        })
        .collect();
    let mut definitions = users.definitions();
    definitions["vhosts"] = json!([{"name": VHOST}]);
    definitions["policies"] = Value::Array(policies);
    definitions["exchanges"] = json!([{
        "name": DEAD_LETTER_EXCHANGE, "vhost": VHOST, "type": "fanout",
        "durable": true, "auto_delete": false, "internal": false, "arguments": {},
    }]);
    definitions["queues"] = json!([queue(JOBS), queue(DEAD_LETTERS)]);
    definitions["bindings"] = json!([{
        "source": DEAD_LETTER_EXCHANGE, "vhost": VHOST, "destination": DEAD_LETTERS, "destination_type": "queue",
        "routing_key": "", "arguments": {},
    }]);
    definitions.to_string()
}

fn queue(name: &str) -> Value {
    json!({
        "name": name, "vhost": VHOST, "durable": true, "auto_delete": false,
        "arguments": {"x-queue-type": "quorum"},
    })
}

/// Returns RabbitMQ's salted SHA-256 hash: Base64 of the salt, then the digest of salt and password.
/// <https://www.rabbitmq.com/docs/passwords#computing-password-hash>
fn password_hash(salt: [u8; 4], password: &[u8]) -> String {
    let digest = Sha256::new()
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    STANDARD.encode([salt.as_slice(), digest.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden_text;

    fn limits(deliveries: i32) -> QueueLimits {
        QueueLimits {
            deliveries,
            dead_letters: 10_000,
            dead_letter_bytes: 64 << 20,
        }
    }

    #[test]
    fn a_password_is_hashed_as_rabbitmq_documents_it() {
        // The example in RabbitMQ's documentation.
        let hash = password_hash([0x90, 0x8D, 0xC6, 0x0A], b"test12");
        assert_eq!(hash, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
    }

    #[test]
    fn the_definitions_of_a_broker() {
        let users = Users {
            programs: User {
                name: "shortener".into(),
                password: b"s3cret",
                salt: [1, 2, 3, 4],
            },
            operator: User {
                name: "shortener-operator".into(),
                password: b"s3cret too",
                salt: [5, 6, 7, 8],
            },
        };
        let text = definitions(&users, limits(5));
        let value: Value = serde_json::from_str(&text).unwrap();
        golden_text(
            "rabbitmq-definitions",
            &serde_json::to_string_pretty(&value).unwrap(),
        );
        assert!(!text.contains("s3cret"));
    }

    #[test]
    fn no_user_is_an_administrator_and_the_operator_touches_no_message() {
        assert!(!PROGRAMS.tags.contains(&"administrator"));
        assert!(!OPERATOR.tags.contains(&"administrator"));
        let objects = [OPERATOR.configure, OPERATOR.write, OPERATOR.read];
        assert_eq!(objects, [NOTHING; 3]);
    }

    #[test]
    fn a_job_is_delivered_as_often_as_the_spec_says() {
        for (deliveries, comes_back) in [(1, 0), (5, 4), (100, 99)] {
            let [jobs, _] = policies(limits(deliveries));
            assert_eq!(jobs.definition["delivery-limit"], comes_back);
        }
    }

    #[test]
    fn dead_letters_are_bounded_and_the_oldest_go_first() {
        let [_, dead_letters] = policies(QueueLimits {
            dead_letters: 7,
            dead_letter_bytes: 1 << 20,
            ..limits(5)
        });
        let definition = &dead_letters.definition;
        assert_eq!(definition["max-length"], 7);
        assert_eq!(definition["max-length-bytes"], 1_048_576);
        assert_eq!(definition["overflow"], "drop-head");
    }

    #[test]
    fn a_policy_is_read_as_the_management_api_spells_it() {
        let answer = json!({
            "vhost": "/", "name": "shortener-dead-letters", "pattern": r"^jobs\.dlq$", "apply-to": "queues",
            "definition": {
                "delivery-limit": DEAD_LETTER_DELIVERY_LIMIT, "max-length": 10_000, "max-length-bytes": 67_108_864,
                "overflow": "drop-head",
            },
            "priority": 0,
        });
        let [_, expected] = policies(limits(5));
        assert_eq!(serde_json::from_value::<Policy>(answer).unwrap(), expected);
    }
}
