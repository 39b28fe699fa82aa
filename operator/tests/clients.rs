//! Test of the list of a real RabbitMQ's clients. The in-memory list of the other tests is only as good as this one.

use std::time::Duration;

use serde_json::json;
use shortener_operator::{
    rabbitmq::broker::{Broker, Login, message::Message},
    transport,
};
use shortener_testing::broker::{self, CLIENT, until};

#[tokio::test]
async fn a_client_is_busy_from_the_delivery_of_a_message_to_its_acknowledgement() {
    const QUEUE: &str = "work";
    let server = broker::Broker::new().await;
    server.declare(QUEUE).await;
    let login = Login {
        username: "guest".to_owned(),
        password: "guest".to_owned(),
    };
    let limit = Duration::from_secs(30);
    let operator = Broker::new(transport::http(), &server.management(), login, limit);
    let operator = operator.in_vhost(server.vhost());
    let becomes = async |expected: bool| {
        until(&format!("busy is {expected}"), async || {
            let busy = operator.busy_clients().await.unwrap();
            let is_busy = busy.contains(CLIENT);
            (is_busy == expected)
                .then_some(())
                .ok_or_else(|| format!("{busy:?}"))
        })
        .await;
    };

    let message = json!({"properties": {}, "payload": "{}", "payload_encoding": "string"});
    let message: Message = serde_json::from_value(message).unwrap();
    operator.publish(QUEUE, &message).await.unwrap();
    let delivery = server.get(QUEUE).await.unwrap();
    becomes(true).await;
    assert!(delivery.ack(Default::default()).await.unwrap());
    becomes(false).await;
}
