import { expect, test } from 'vitest';
import { after, bytes, measured, passed, valued } from './words';

test('bytes are told in the largest unit that they fill', () => {
  expect([0, 512, 8192, 1536, 20_971_520, 10_737_418_240].map(bytes)).toEqual(['0 bytes', '512 bytes', '8 KiB', '1.5 KiB', '20 MiB', '10 GiB']);
});

test('a time that has passed is told in its two largest units', () => {
  expect([0.4, 59, 61, 3600, 90_061].map(passed)).toEqual(['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
});

test('a limit has the unit that its name tells', () => {
  expect(measured('max_body', 8_388_608)).toBe('8 MiB');
  expect(measured('run_seconds', 600)).toBe('600 s');
  expect(measured('run_events', 200_000)).toBe('200,000');
});

test('a value is one line, whatever it is', () => {
  expect([null, '', 'x', ['a'], { b: 1 }].map(valued)).toEqual(['null', '(empty)', 'x', '["a"]', '{"b":1}']);
});

test('an end is so many days from now, or never', () => {
  expect(after(30, Date.parse('2026-11-15T12:00:00Z'))).toBe('2026-12-15T12:00:00.000Z');
  expect(after(null)).toBeNull();
});
