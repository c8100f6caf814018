//! An array's codec and its parameters, and their spelling in the header.

use crate::bytes::{put_integer, Reader};
use crate::codec::TileCodec;
use crate::decimate::{Decimate, Layout};
use crate::fills::Apart;
use crate::header::Header;
use crate::lossless::Digits;
use crate::planes::{First, Integers, Learning, Number, Settings};
use crate::quantised::{mean_step, Quantised};
use crate::sample::DataType;
use crate::scaled::Scaled;
use crate::tile::Coder;
use crate::version::{VERSION_BRIEF, VERSION_SHORT};

/// Exponents of planes lie within this of 0: those of doubles do, whatever the transform adds.
const HEADER_EXPONENT_MAX: i32 = 1200;
/// Below the bits of any double.
pub(crate) const EXPONENT_MIN: i32 = -1150;
/// The bit of rounded integers in the code of a transform.
const ROUNDED: u8 = 1 << 4;

/// The codec of an array and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum CodecParameters {
    /// The paper's.
    Decimate(Decimate),
    /// Wavelets and bit-planes.
    Planes(Settings),
    /// Planes of the places that samples have in a list of values.
    Quantised(Settings, Vec<f64>),
    /// Planes of samples divided by a power of two.
    Scaled(Settings, i32),
}

impl CodecParameters {
    /// The name that users give it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Decimate(_) => "decimate",
            Self::Planes(_) | Self::Quantised(..) | Self::Scaled(..) => "planes",
        }
    }

    /// Whether integers are coded as floats and rounded.
    pub(crate) fn is_rounded(&self) -> bool {
        match self {
            Self::Planes(settings) | Self::Quantised(settings, _) | Self::Scaled(settings, _) => {
                settings.integers == Integers::Rounded
            }
            Self::Decimate(_) => false,
        }
    }

    /// The settings of planes.
    fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            Self::Planes(settings) | Self::Quantised(settings, _) | Self::Scaled(settings, _) => {
                Some(settings)
            }
            Self::Decimate(_) => None,
        }
    }

    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Decimate(codec) => {
                bytes.push(match codec.layout {
                    Layout::Sorted => 0,
                    Layout::Buckets => 4,
                });
                put_integer(codec.ratios.len() as u64, bytes);
                codec.ratios.iter().for_each(|ratio| put_integer(*ratio as u64, bytes));
            }
            Self::Planes(settings) => {
                bytes.push(1);
                put_settings(settings, bytes);
            }
            Self::Quantised(settings, values) => {
                bytes.push(2);
                put_settings(settings, bytes);
                Quantised::put_values(values, bytes);
            }
            Self::Scaled(settings, exponent) => {
                bytes.push(3);
                put_settings(settings, bytes);
                put_exponent(*exponent, bytes);
            }
        }
    }

    /// The codec of a container of this version.
    pub(crate) fn take(reader: &mut Reader<'_>, version: u16) -> Option<Self> {
        match reader.byte()? {
            kind @ (0 | 4) => {
                let count = reader.length().filter(|count| *count <= reader.rest().len())?;
                let ratios = (0..count).map(|_| reader.length()).collect::<Option<Vec<_>>>()?;
                let layout = if kind == 0 { Layout::Sorted } else { Layout::Buckets };
                let codec = Decimate { ratios, layout };
                codec.is_sound().then_some(Self::Decimate(codec))
            }
            1 => take_settings(reader, version).map(Self::Planes),
            2 => {
                Some(Self::Quantised(take_settings(reader, version)?, Quantised::<f64>::take_values(reader)?))
            }
            3 => Some(Self::Scaled(take_settings(reader, version)?, take_exponent(reader)?)),
            _ => None,
        }
    }
}

fn put_exponent(exponent: i32, bytes: &mut Vec<u8>) {
    put_integer(exponent.abs_diff(-HEADER_EXPONENT_MAX).into(), bytes);
}

fn take_exponent(reader: &mut Reader<'_>) -> Option<i32> {
    let above = reader.integer().filter(|above| *above <= 2 * HEADER_EXPONENT_MAX as u64)?;
    Some(above as i32 - HEADER_EXPONENT_MAX)
}

fn put_settings(settings: &Settings, bytes: &mut Vec<u8>) {
    put_exponent(settings.top, bytes);
    put_exponent(settings.finest, bytes);
    bytes.push(transform_code(settings));
}

fn take_settings(reader: &mut Reader<'_>, version: u16) -> Option<Settings> {
    let mut settings = Settings::new(take_exponent(reader)?, take_exponent(reader)?);
    match version {
        ..VERSION_SHORT => settings.first = First::Shorter,
        _ => {
            let code = reader.byte()?;
            settings.first = First::Axes([0, 1, 2, 3].map(|axis| code >> axis & 1 == 1));
            settings.integers = if code & ROUNDED != 0 { Integers::Rounded } else { Integers::Reversible };
            (code == transform_code(&settings)).then_some(())?;
        }
    }
    settings.learning = if version < VERSION_BRIEF { Learning::Quick } else { Learning::Steady };
    (settings.finest <= settings.top).then_some(settings)
}

/// A bit for each axis that is decomposed before the others, and one for rounded integers.
fn transform_code(settings: &Settings) -> u8 {
    let axes = match settings.first {
        First::Axes(axes) => (0..4).map(|axis| u8::from(axes[axis]) << axis).sum(),
        First::Shorter => 0,
    };
    axes | if settings.integers == Integers::Rounded { ROUNDED } else { 0 }
}

/// Estimates of samples are at most so many times as large as the largest sample.
const OVERSHOOT_MAX: f64 = 64.0;

impl Header {
    /// The coder of the tiles.
    pub(crate) fn coder<T: Number>(&self) -> Coder<T> {
        let codec: Box<dyn TileCodec<T>> = match &self.codec {
            CodecParameters::Decimate(codec) => Box::new(codec.clone()),
            CodecParameters::Planes(settings) => Box::new(*settings),
            CodecParameters::Scaled(settings, exponent) => {
                Box::new(Scaled { settings: *settings, exponent: *exponent })
            }
            CodecParameters::Quantised(settings, values) => Box::new(Quantised {
                settings: *settings,
                values: values.iter().map(|value| T::from_f64(*value)).collect(),
            }),
        };
        let digits = if self.version < VERSION_SHORT { Digits::Bytes } else { Digits::Pairs };
        let most = match self.kind {
            DataType::Float32 => f64::from(f32::MAX),
            DataType::Float64 => f64::MAX,
            _ => f64::INFINITY,
        };
        let overflows = self.range.1.abs().max(self.range.0.abs()) > most / OVERSHOOT_MAX;
        let apart = Apart::new(&self.fills, self.range);
        Coder { codec, exact: self.exact, digits, is_alone: self.grid.tiles() == 1, overflows, apart }
    }
}

impl CodecParameters {
    /// Whether all planes leave more than a tolerance: more than nothing, of whole numbers without one.
    pub(crate) fn is_coarse(&self, kind: DataType, tolerance: Option<f64>) -> bool {
        let unit = match self {
            Self::Scaled(_, dropped) if !kind.is_float() => f64::from(*dropped).exp2(),
            Self::Planes(settings) if settings.integers == Integers::Rounded => 1.0,
            Self::Quantised(settings, values) if settings.integers == Integers::Rounded => mean_step(values),
            _ => return false,
        };
        tolerance.is_none_or(|tolerance| tolerance < unit)
    }

    /// Another plane; false if the codec has none.
    pub(crate) fn refine(&mut self) -> bool {
        match self.settings_mut() {
            Some(settings) if settings.finest > EXPONENT_MIN => {
                settings.finest -= 1;
                true
            }
            _ => false,
        }
    }
}
