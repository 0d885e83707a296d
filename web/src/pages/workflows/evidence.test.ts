import { expect, test } from 'vitest';
import { parseEvidence, parseProbes, servedVerdict, stepLabel, evidenceVerdict } from './evidence';

const DOCUMENT = {
  url: 'https://host/app',
  is_chat: true,
  evidence: 'inspect.flags',
  confidence: 'declared',
  dialect: 'invoke',
  call: 'POST https://host/app/invoke',
  streams: null,
  schemas: { inputs: {} },
  warnings: ['two flags differ'],
  tried: [{ step: 'inspect.flags', request: 'POST /inspect', status: 200, found: 'request.flags.is_chat = true' }],
};

test('parses the evidence of a discovery', () => {
  expect(parseEvidence(DOCUMENT)).toEqual({
    url: 'https://host/app',
    isChat: true,
    evidence: 'inspect.flags',
    confidence: 'declared',
    dialect: 'invoke',
    call: 'POST https://host/app/invoke',
    streams: null,
    warnings: ['two flags differ'],
    probes: [{ step: 'inspect.flags', request: 'POST /inspect', status: 200, found: 'request.flags.is_chat = true' }],
  });
});

test('returns null for invalid evidence and skips probes that are not objects', () => {
  expect(parseEvidence(null)).toBeNull();
  expect(parseEvidence({ evidence: 3 })).toBeNull();
  expect(parseProbes('x')).toEqual([]);
  expect(parseProbes([null, {}])).toEqual([{ step: '', request: null, status: null, found: '' }]);
});

test('describes the verdict and its confidence', () => {
  expect(evidenceVerdict({ isChat: true, confidence: 'declared' })).toBe('Chat: declared by the service.');
  expect(evidenceVerdict({ isChat: false, confidence: 'guessed' })).toBe(
    'Single-turn: guessed from field names in its schema.',
  );
  expect(evidenceVerdict({ isChat: true, confidence: null })).toBe('Chat: set by you.');
  expect(evidenceVerdict({ isChat: null, confidence: null })).toBe('Could not detect whether this is a chat.');
  expect(servedVerdict(false, 'declared')).toBe('Single-turn: declared in code.');
});

test('labels an unknown step with its name', () => {
  expect(stepLabel('inspect.flags')).toBe('Service description (/inspect)');
  expect(stepLabel('new.step')).toBe('new.step');
});
