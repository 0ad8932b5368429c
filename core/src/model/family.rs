//! The cells of a model, for firmware that parses other images with the same cells at run time.

use super::Engine;
use crate::error::TooManyCells;
use crate::image::{ImageError, Layout, Numeric};
use crate::node::{Cells, Node, Place};
use crate::spec::{CellKind, Specs};

/// Maximum number of different pairs of cell kind and options.
const MEMBERS: usize = 16;

/// The cells that a model uses: [`Model::family`](crate::Model::family).
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub(crate) numeric: Numeric,
    pub(crate) layout: Layout,
    pub(crate) cells: Cells,
    pub(crate) engine: Option<Engine>,
    members: [Option<(CellKind, u32, Specs)>; MEMBERS],
}

impl Family {
    /// A family without a cell.
    pub(crate) const fn new(numeric: Numeric, layout: Layout, cells: Cells, engine: Option<Engine>) -> Self {
        Self { numeric, layout, cells, engine, members: [None; MEMBERS] }
    }

    /// This family with the cell of a node.
    pub(crate) const fn with(mut self, node: &Node<'_>) -> Result<Self, TooManyCells> {
        let mut index = 0;
        while index < MEMBERS {
            match self.members[index] {
                Some((kind, options, _)) if kind as usize == node.kind as usize && options == node.options => {
                    return Ok(self);
                }
                Some(_) => index += 1,
                None => {
                    self.members[index] = Some((node.kind, node.options, node.specs()));
                    return Ok(self);
                }
            }
        }
        Err(TooManyCells { most: MEMBERS })
    }

    /// The descriptions of a member with this kind and these options.
    pub(crate) const fn specs(&self, kind: CellKind, options: u32, place: Place) -> Result<Specs, ImageError> {
        let mut members: &[_] = &self.members;
        while let [Some((own, of, specs)), others @ ..] = members {
            if *own as usize == kind as usize && *of == options {
                return Ok(*specs);
            }
            members = others;
        }
        Err(ImageError::OtherFamily { node: place.node, code: kind.code() })
    }
}
