//! Values that are nested deeper than the decoder of JSON takes. Free-form fields such as `podTemplate` admit them, and
//! `serde_json` refuses a whole list for one of them, so one resource could keep the operator from reading all others.
//! Kubernetes itself has nothing that is nested as deep: what such a value contains is left out, and the checks of the
//! templates refuse the rest of it.

use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame};

/// Depth of the objects and lists that are empty in place of what they contain. `serde_json` takes 127.
const DEEPEST: usize = 100;

/// Leaves out of the JSON of an answer what is nested too deep.
pub fn limited<B: Body<Data = Bytes>>(
    answer: Response<B>,
) -> Response<impl Body<Data = Bytes, Error = B::Error>> {
    let mut place = Place::default();
    answer.map(|body| {
        body.map_frame(move |frame| match frame.into_data() {
            Ok(part) => Frame::data(place.pass(part)),
            Err(trailers) => trailers,
        })
    })
}

/// The place of the next byte in a text of JSON documents.
#[derive(Default)]
struct Place {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Place {
    /// Returns the next part of the text without what is too deep.
    fn pass(&mut self, part: Bytes) -> Bytes {
        let mut passed: Option<Vec<u8>> = None;
        for (index, byte) in part.iter().enumerate() {
            match (self.passes(*byte), &mut passed) {
                (true, Some(passed)) => passed.push(*byte),
                (false, None) => passed = Some(part[..index].to_vec()),
                (true, None) | (false, Some(_)) => {}
            }
        }
        passed.map_or(part, Bytes::from)
    }

    /// Returns true if a byte stays, and goes past it.
    fn passes(&mut self, byte: u8) -> bool {
        let before = self.depth;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_string => self.is_escaped = true,
            b'"' => self.is_string = !self.is_string,
            _ if self.is_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        before.min(self.depth) < DEEPEST
    }
}

#[cfg(test)]
mod tests {
    use kube::{Api, Client, api::ListParams};
    use serde_json::{Value, json};
    use shortener_operator_core::api::ShortenerStack;
    use tower::{Layer, util::MapResponseLayer};

    use super::*;
    use crate::{
        reconcile::context::GuardedStack,
        testing::{api_server::FakeApiServer, shared::stored_stack, world::NAMESPACE},
    };

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!("]}\\\""), |inner, _| json!({"a": [inner]}))
    }

    /// Returns what is left of a text that comes in parts of this size.
    fn left(text: &str, size: usize) -> String {
        let mut place = Place::default();
        let parts = text.as_bytes().chunks(size);
        let passed = parts.map(|part| place.pass(Bytes::copy_from_slice(part)));
        let passed: Vec<u8> = passed.flat_map(Vec::from).collect();
        String::from_utf8(passed).unwrap()
    }

    #[test]
    fn what_is_nested_less_deep_stays_as_it_is() {
        let text = format!("{}\n{}\n", nested(40), nested(49));
        assert_eq!(left(&text, 7), text);
    }

    #[test]
    fn what_is_nested_too_deep_is_empty_and_what_follows_stays() {
        let text = json!([nested(300), {"b": "\"{"}]).to_string();
        for size in [1, 2, 5, text.len()] {
            let left: Value = serde_json::from_str(&left(&text, size)).unwrap();
            assert_eq!(left[1], json!({"b": "\"{"}));
            let mut deepest = &left[0];
            let mut depth = 1;
            while let Some(inner) = deepest.get("a").or_else(|| deepest.get(0)) {
                (deepest, depth) = (inner, depth + 1);
            }
            assert_eq!((depth, deepest), (DEEPEST - 1, &json!({})));
        }
    }

    #[tokio::test]
    async fn one_stack_keeps_no_others_from_being_read() {
        let server = FakeApiServer::default();
        let mut stack = json!(stored_stack(json!({})));
        stack["spec"]["app"] = json!({"podTemplate": nested(100)});
        server.create(&serde_json::from_value::<ShortenerStack>(stack).unwrap());
        let layer = MapResponseLayer::new(limited);
        let client = Client::new(layer.layer(server.clone()), NAMESPACE);
        let list = async |client| {
            let stacks: Api<GuardedStack> = Api::namespaced(client, NAMESPACE);
            stacks.list(&ListParams::default()).await
        };
        let without = list(Client::new(server, NAMESPACE)).await;
        assert!(without.is_err(), "the layer is needed");
        assert!(list(client).await.unwrap().items[0].0.is_ok());
    }
}
