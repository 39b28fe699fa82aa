//! Values on both sides of every bound of a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shortener_testing::schema::{Schemas, exact, list, types};

/// Values of formats.
pub struct Samples {
    /// The identifier of a job.
    pub uuid: String,
    /// A time at which a link may end.
    pub date_time: String,
}

/// The source of values.
pub struct Values<'a> {
    pub schemas: Schemas<'a>,
    pub samples: Samples,
}

impl<'a> Values<'a> {
    /// Returns values of a schema, and others beside them; [`Schemas::fits`] tells them apart. The first one has the type
    /// of the schema.
    pub fn of(&self, schema: &'a Value) -> Vec<Value> {
        let schema = self.schemas.resolved(schema);
        let types = types(schema);
        let mut values = Vec::new();
        if types.contains("string") {
            values.extend(texts(schema, &self.samples));
        }
        if types.contains("integer") {
            values.extend(whole_numbers(schema));
        }
        if types.contains("number") {
            values.extend(numbers(schema));
        }
        if types.contains("boolean") {
            values.push(json!(true));
        }
        if types.contains("array") {
            values.extend(self.arrays(schema));
        }
        if types.contains("object") {
            values.extend(self.objects(schema));
        }
        values.extend([json!(null), json!("a b"), json!(0.5)]);
        if !types.contains("array") {
            values.push(json!([]));
        }
        values
    }

    /// Returns arrays at the bounds of their length and beside them, and with each value of the items. Items that are
    /// objects are not varied, because operations judge those one by one.
    fn arrays(&self, schema: &'a Value) -> Vec<Value> {
        let items = self.of(&schema["items"]);
        let of = |count: usize| vec![items[0].clone(); count];
        let bound = |name: &str| schema[name].as_u64().map(|count| count as usize);
        let least = bound("minItems").unwrap_or(1);
        let mut arrays = vec![of(least), of(least.saturating_sub(1))];
        if let Some(most) = bound("maxItems") {
            arrays.extend([of(most), of(most + 1)]);
        }
        for item in items.iter().filter(|_| !items[0].is_object()) {
            let mut array = of(least.max(1));
            array[0] = item.clone();
            arrays.push(array);
        }
        arrays.into_iter().map(Value::Array).collect()
    }

    /// Returns objects with the required fields alone and with each value of each field, with every field, with all but
    /// one, and at the bound of their number.
    fn objects(&self, schema: &'a Value) -> Vec<Value> {
        let required: BTreeSet<&str> = list(schema, "required").filter_map(Value::as_str).collect();
        let fields: Vec<(&String, Vec<Value>)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, field)| (name, self.of(field)))
            .collect();
        let first = |(name, values): &(&String, Vec<Value>)| ((*name).clone(), values[0].clone());
        let full: Map<String, Value> = fields.iter().map(first).collect();
        let mut least = full.clone();
        least.retain(|name, _| required.contains(name.as_str()));
        let mut objects = vec![least.clone(), full.clone()];
        for (name, values) in fields {
            let mut without = full.clone();
            without.remove(name);
            objects.push(without);
            for value in values {
                let mut object = least.clone();
                object.insert(name.clone(), value);
                objects.push(object);
            }
        }
        if let Some(most) = schema["maxProperties"].as_u64() {
            let of = |count: u64| (0..count).map(|field| (format!("f{field}"), json!("a")));
            objects.extend([of(most).collect(), of(most + 1).collect()]);
        }
        objects.into_iter().map(Value::Object).collect()
    }
}

fn texts(schema: &Value, samples: &Samples) -> Vec<Value> {
    let (format, example) = (schema["format"].as_str(), schema["examples"][0].as_str());
    let sample = match format {
        Some("uuid") => samples.uuid.as_str(),
        Some("date-time") => samples.date_time.as_str(),
        _ => example.unwrap_or("x"),
    };
    let mut texts = vec![json!(sample), json!(""), json!("a\u{1}b")];
    if let Some(most) = schema["maxLength"].as_u64() {
        for length in [most, most + 1] {
            let rest = "x".repeat(length as usize - sample.len());
            texts.push(json!(format!("{sample}{rest}")));
        }
    }
    texts
}

fn whole_numbers(schema: &Value) -> Vec<Value> {
    let bound = |name: &str| schema[name].as_number().and_then(exact);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let values = [
        least.or(most).or(Some(1)),
        most,
        least.map(|least| least - 1),
        most.map(|most| most + 1),
    ];
    let values = values.into_iter().flatten();
    values
        .map(|value| match i64::try_from(value) {
            Ok(value) => json!(value),
            Err(_) => json!(u64::try_from(value).unwrap()),
        })
        .collect()
}

fn numbers(schema: &Value) -> Vec<Value> {
    let bounds = ["minimum", "maximum"].into_iter();
    let bounds = bounds.filter_map(|name| schema[name].as_f64());
    let values = bounds.flat_map(|bound| [bound, 2.0 * bound]);
    [0.25].into_iter().chain(values).map(Value::from).collect()
}
