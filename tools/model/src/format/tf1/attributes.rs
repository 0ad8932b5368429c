//! Typed access to the attributes of a node. An absent attribute has the op's default.

use super::{graph::Graph, symbol::fail_if};
use crate::format::graphdef::attr_value::Value as Attr;

impl Graph<'_> {
    fn typed<T>(&self, node: usize, name: &str, kind: &str, of: fn(&Attr) -> Option<T>) -> Result<Option<T>, String> {
        let attr = self.attr(node, name);
        attr.map(|attr| of(attr).ok_or_else(|| format!("the attribute {name} must be {kind}"))).transpose()
    }

    pub fn maybe_int(&self, node: usize, name: &str) -> Result<Option<i64>, String> {
        self.typed(node, name, "an integer", |attr| if let Attr::Int(int) = attr { Some(*int) } else { None })
    }

    pub fn int(&self, node: usize, name: &str, default: i64) -> Result<i64, String> {
        Ok(self.maybe_int(node, name)?.unwrap_or(default))
    }

    pub fn float(&self, node: usize, name: &str, default: f32) -> Result<f32, String> {
        let of = |attr: &Attr| if let Attr::Float(float) = attr { Some(*float) } else { None };
        Ok(self.typed(node, name, "a number", of)?.unwrap_or(default))
    }

    pub fn flag(&self, node: usize, name: &str, default: bool) -> Result<bool, String> {
        let of = |attr: &Attr| if let Attr::Bool(flag) = attr { Some(*flag) } else { None };
        Ok(self.typed(node, name, "a flag", of)?.unwrap_or(default))
    }

    pub fn must_not(&self, node: usize, names: &[&str]) -> Result<(), String> {
        for name in names {
            fail_if(self.flag(node, name, false)?, format_args!("{name} must be false"))?;
        }
        Ok(())
    }

    pub fn sizes(&self, node: usize, name: &str) -> Result<Option<[usize; 2]>, String> {
        let list = |attr: &Attr| if let Attr::List(list) = attr { Some(list.i.clone()) } else { None };
        let Some(list) = self.typed(node, name, "a list of integers", list)? else { return Ok(None) };
        match *list {
            [1, height @ 1..=65_535, width @ 1..=65_535, 1] => Ok(Some([height as usize, width as usize])),
            _ => Err(format!("its {name} are {list:.80?}, but must be [1, height, width, 1]")),
        }
    }

    pub fn text(&self, node: usize, name: &str, default: &'static str) -> &str {
        match self.attr(node, name) {
            Some(Attr::Bytes(text)) => std::str::from_utf8(text).unwrap_or("?"),
            _ => default,
        }
    }

    pub fn channels_last(&self, node: usize) -> Result<(), String> {
        fail_if(self.text(node, "data_format", "NHWC") != "NHWC", "its data_format must be NHWC")
    }
}
