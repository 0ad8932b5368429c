//! Values of several JSON types. None of them is kept in memory as JSON first, and lists are short: a file cannot make them
//! take much more memory than it has bytes.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use crate::canonical::MAX_NODES;

/// A list with at most as many elements as a network has nodes.
#[derive(Clone)]
pub(super) struct Few<T>(pub Vec<T>);

/// One value for all layers, or one for each, which may be absent.
pub(super) enum OneOrEach<T> {
    One(T),
    Each(Few<Option<T>>),
}

/// An activation, written as its name or with its settings.
#[derive(Clone)]
pub(super) struct Curve {
    pub name: String,
    /// The slope for negative values.
    pub slope: Option<f32>,
    /// Whether each channel has a slope of its own.
    pub has_slopes: bool,
}

/// A modulation by the condition, written as its settings or as false.
pub(super) struct Film {
    pub active: bool,
}

struct List<T>(PhantomData<T>);

struct Any<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_NODES} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            if values.len() == MAX_NODES {
                return Err(A::Error::invalid_length(MAX_NODES + 1, &self));
            }
            values.push(value);
        }
        Ok(Few(values))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<OneOrEach<T>> {
    type Value = OneOrEach<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of values")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<OneOrEach<T>, E> {
        T::deserialize(name.into_deserializer()).map(OneOrEach::One)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrEach<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(OneOrEach::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrEach<T>, A::Error> {
        List(PhantomData).visit_seq(list).map(OneOrEach::Each)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrEach<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any::<Self>(PhantomData))
    }
}

#[derive(serde::Deserialize)]
struct CurveSettings {
    #[serde(rename = "type")]
    name: String,
    negative_slope: Option<f32>,
    negative_slopes: Option<IgnoredAny>,
}

impl<'de> Visitor<'de> for Any<Curve> {
    type Value = Curve;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or the settings of an activation")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Curve, E> {
        Ok(Curve { name: name.to_owned(), slope: None, has_slopes: false })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Curve, A::Error> {
        let settings = CurveSettings::deserialize(MapAccessDeserializer::new(map))?;
        let CurveSettings { name, negative_slope, negative_slopes } = settings;
        Ok(Curve { name, slope: negative_slope, has_slopes: negative_slopes.is_some() })
    }
}

impl<'de> Deserialize<'de> for Curve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any::<Self>(PhantomData))
    }
}

#[derive(serde::Deserialize)]
struct FilmSettings {
    active: Option<bool>,
}

impl<'de> Visitor<'de> for Any<Film> {
    type Value = Film;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings, or false")
    }

    fn visit_bool<E: Error>(self, active: bool) -> Result<Film, E> {
        Ok(Film { active })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Film, A::Error> {
        let FilmSettings { active } = FilmSettings::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Film { active: active.unwrap_or(true) })
    }
}

impl<'de> Deserialize<'de> for Film {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any::<Self>(PhantomData))
    }
}
