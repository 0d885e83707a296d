import { expect, test } from 'vitest';
import { readEvidence, readTried, servedVerdict, stepInWords, verdict } from './evidence';

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

test('the result of a search is read whole', () => {
  expect(readEvidence(DOCUMENT)).toEqual({
    url: 'https://host/app',
    isChat: true,
    evidence: 'inspect.flags',
    confidence: 'declared',
    dialect: 'invoke',
    call: 'POST https://host/app/invoke',
    streams: null,
    warnings: ['two flags differ'],
    tried: [{ step: 'inspect.flags', request: 'POST /inspect', status: 200, found: 'request.flags.is_chat = true' }],
  });
});

test('what is none is nothing, and bad steps are left out', () => {
  expect(readEvidence(null)).toBeNull();
  expect(readEvidence({ evidence: 3 })).toBeNull();
  expect(readTried('x')).toEqual([]);
  expect(readTried([null, {}])).toEqual([{ step: '', request: null, status: null, found: '' }]);
});

test('the verdict says what it is and how sure that is', () => {
  expect(verdict({ isChat: true, confidence: 'declared' })).toBe('A chat: it says so itself.');
  expect(verdict({ isChat: false, confidence: 'guessed' })).toBe('Not a chat: guessed from the names in its schema.');
  expect(verdict({ isChat: true, confidence: null })).toBe('A chat: as you said.');
  expect(verdict({ isChat: null, confidence: null })).toBe('Nothing there says whether it is a chat.');
  expect(servedVerdict(false, 'declared')).toBe('Not a chat: declared in code.');
});

test('a step that this page does not know keeps its own name', () => {
  expect(stepInWords('inspect.flags')).toBe('Its own description, /inspect');
  expect(stepInWords('new.step')).toBe('new.step');
});
