//! Runs the app's program in one of the app's pods.

use futures::future::OptionFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::AttachParams};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::DlqError;
use crate::cli::{
    app_pod::{self, CONTAINER},
    cluster::Stack,
};

/// The program in the app's image, with the command for dead letters.
pub(super) const COMMAND: [&str; 2] = ["/app", "dead-letters"];
/// Words that the program and its command line parser print before an error message.
const PREFIXES: [&str; 2] = ["app: ", "error: "];

/// Returns what `app dead-letters` prints with these arguments.
pub(super) async fn ask(stack: &Stack, arguments: Vec<String>) -> Result<String, DlqError> {
    let (client, namespace) = stack.location.connect_for_streams().await?;
    let pod = app_pod::find(&client, &namespace, &stack.name).await?;
    run(&Api::namespaced(client, &namespace), pod, arguments).await
}

async fn run(pods: &Api<Pod>, pod: String, arguments: Vec<String>) -> Result<String, DlqError> {
    let command = COMMAND.into_iter().map(str::to_owned).chain(arguments);
    let command: Vec<String> = command.collect();
    let container = AttachParams::default().container(CONTAINER);
    let mut process = match pods.exec(&pod, command, &container).await {
        Ok(process) => process,
        Err(source) => return Err(DlqError::Exec { pod, source }),
    };
    let (answer, complaint) = (process.stdout(), process.stderr());
    let ended = OptionFuture::from(process.take_status());
    // The streams have no end if the connection breaks, but then there is no status.
    let ended = async { ended.await.flatten().ok_or(DlqError::Interrupted(pod)) };
    let (status, answer, complaint) = tokio::try_join!(ended, whole(answer), whole(complaint))?;
    match status.status.as_deref() {
        Some("Success") => Ok(answer),
        _ => Err(DlqError::Failed(message(
            &complaint,
            status.message.unwrap_or_default(),
        ))),
    }
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> Result<String, DlqError> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the message of a program that failed, or the cluster's if it said nothing.
fn message(complaint: &str, of_cluster: String) -> String {
    let said = PREFIXES.iter().fold(complaint.trim(), |said, prefix| {
        said.strip_prefix(prefix).unwrap_or(said)
    });
    match said {
        "" => of_cluster,
        said => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use futures::SinkExt;
    use kube::{Client, Config};
    use tokio::{io::AsyncWriteExt, net::TcpListener};
    use tokio_tungstenite::{accept_hdr_async, tungstenite::Message};

    use super::*;

    /// Returns the address of an API server that is started next, and a client for it.
    async fn api_server() -> (TcpListener, Api<Pod>) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(config).unwrap();
        (listener, Api::namespaced(client, "links"))
    }

    /// Runs `ls` in a pod, whose streams have this content. The first byte of each part names its stream.
    #[expect(clippy::result_large_err, reason = "the library wants such a closure")]
    async fn ran(content: Vec<Vec<u8>>) -> Result<String, String> {
        let (listener, pods) = api_server().await;
        let program = async {
            let (stream, _) = listener.accept().await.unwrap();
            let accept = |request: &http::Request<()>, mut response: http::Response<()>| {
                assert_eq!(
                    request.uri(),
                    "/api/v1/namespaces/links/pods/acme-app-0/exec?&stdout=true&stderr=true&container=app&command=%2Fapp&command=dead-letters&command=ls"
                );
                let protocol = http::HeaderValue::from_static("v5.channel.k8s.io");
                response
                    .headers_mut()
                    .insert("sec-websocket-protocol", protocol);
                Ok(response)
            };
            let mut socket = accept_hdr_async(stream, accept).await.unwrap();
            for part in content {
                socket.send(Message::binary(part)).await.unwrap();
            }
        };
        let asked = run(&pods, "acme-app-0".to_owned(), vec!["ls".to_owned()]);
        let ((), answer) = tokio::join!(program, asked);
        answer.map_err(|error| error.to_string())
    }

    fn part(stream: u8, content: &str) -> Vec<u8> {
        [&[stream], content.as_bytes()].concat()
    }

    #[tokio::test]
    async fn the_answer_of_the_program_is_returned_and_its_error_is_that_of_the_command() {
        const SUCCESS: &str = r#"{"status": "Success"}"#;
        const FAILURE: &str = r#"{"status": "Failure", "message": "ended with exit code 1"}"#;
        let long = "x".repeat(5_000);
        let content = [
            (1, "{"),
            (1, &long),
            (2, "a warning"),
            (1, "}"),
            (3, SUCCESS),
        ];
        let content = content.map(|(stream, text)| part(stream, text));
        let answer = ran(content.into()).await;
        assert_eq!(answer.unwrap(), format!("{{{long}}}"));
        let failed = vec![part(2, "app: no such id\n"), part(3, FAILURE)];
        assert_eq!(ran(failed).await.unwrap_err(), "no such id");
        let silent = vec![part(3, FAILURE)];
        assert_eq!(ran(silent).await.unwrap_err(), "ended with exit code 1");
        let broken = ran(vec![part(1, "{")]).await.unwrap_err();
        assert!(broken.contains("broke before the end"), "{broken}");
    }

    #[tokio::test]
    async fn the_right_that_is_missing_is_named() {
        let (listener, pods) = api_server().await;
        let refuse = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(refusal).await.unwrap();
            stream
        };
        let asked = run(&pods, "acme-app-0".to_owned(), Vec::new());
        let (_stream, refused) = tokio::join!(refuse, asked);
        let error = refused.unwrap_err().to_string();
        for word in ["403", "pods/exec", "acme-app-0"] {
            assert!(error.contains(word), "{error}");
        }
    }
}
