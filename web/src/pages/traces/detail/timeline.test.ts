import { describe, expect, test } from 'vitest';
import {
  isFullRange,
  formatMilliseconds,
  parseMoment,
  moveRange,
  barPosition,
  ticks,
  clampRange,
  zoomRange,
} from './timeline';

describe('a timestamp', () => {
  test('is parsed with microseconds', () => {
    expect(parseMoment('2026-11-15T07:20:00.123456Z') - parseMoment('2026-11-15T07:20:00Z')).toBeCloseTo(123.456, 3);
  });

  test('is parsed as 0 if it is invalid', () => {
    expect([parseMoment(''), parseMoment('yesterday')]).toEqual([0, 0]);
  });
});

test('formats a duration in suitable units with few digits', () => {
  const durations = [
    0, 0.0254, 0.41, 1.26, 12.3, 999.4, 1243, 12_340, 59_960, 125_000, 3_600_000, 12_000_000, 200_000_000,
  ];
  expect(durations.map(formatMilliseconds)).toEqual([
    '0 ms',
    '0.025 ms',
    '0.41 ms',
    '1.3 ms',
    '12 ms',
    '999 ms',
    '1.24 s',
    '12.3 s',
    '1 min',
    '2 min 5 s',
    '1 h',
    '3 h 20 min',
    '2 d 8 h',
  ]);
});

describe('the visible range', () => {
  test('is clamped to the full range, ordered and never empty', () => {
    expect(clampRange({ from: 80, to: 20 }, 100)).toEqual({ from: 20, to: 80 });
    expect(clampRange({ from: -50, to: 500 }, 100)).toEqual({ from: 0, to: 100 });
    expect(clampRange({ from: 100, to: 100 }, 100)).toEqual({ from: 99.999, to: 100 });
    expect(clampRange({ from: 0, to: 0 }, 0)).toEqual({ from: 0, to: 0 });
  });

  test('zooms around its center, out to at most the full range', () => {
    const zoomed = zoomRange({ from: 0, to: 100 }, 100, 0.5);
    expect(zoomed).toEqual({ from: 25, to: 75 });
    expect(isFullRange(zoomRange(zoomed, 100, 2), 100)).toBe(true);
    expect(isFullRange(zoomed, 100)).toBe(false);
  });

  test('moves within the full range', () => {
    expect(moveRange({ from: 20, to: 40 }, 100, 0.5)).toEqual({ from: 30, to: 50 });
    expect(moveRange({ from: 20, to: 40 }, 100, -9)).toEqual({ from: 0, to: 20 });
    expect(moveRange({ from: 20, to: 40 }, 100, 9)).toEqual({ from: 80, to: 100 });
  });
});

test('positions the bar of a span within, before or after the visible range', () => {
  const range = { from: 100, to: 200 };
  expect(barPosition(125, 50, range)).toEqual({ left: 25, width: 50 });
  expect(barPosition(0, 1000, range)).toEqual({ left: 0, width: 100 });
  expect(barPosition(150, 0, range)).toEqual({ left: 50, width: 0 });
  expect([barPosition(0, 50, range), barPosition(201, 5, range)]).toEqual(['before', 'after']);
  expect(barPosition(0, 0, { from: 0, to: 0 })).toEqual({ left: 0, width: 0 });
});

test('places ticks at a few round values', () => {
  expect(ticks({ from: 0, to: 2400 }, 4).map(({ label }) => label)).toEqual(['0', '1 s', '2 s']);
  expect(ticks({ from: 130, to: 170 }, 4).map(({ label }) => label)).toEqual([
    '130 ms',
    '140 ms',
    '150 ms',
    '160 ms',
    '170 ms',
  ]);
  expect(ticks({ from: 0, to: 0 }, 4)).toEqual([]);
});
