/** Draft of a new review: choices, request and what is missing. */
import type { paths } from '@/api/schema.d';
import type { ReviewQuestion } from './queries';

export type ReviewRequest = paths['/api/reviews']['post']['requestBody']['content']['application/json'];
export type QuestionKind = NonNullable<ReviewQuestion['type']>;

export const QUESTION_KINDS: Readonly<Record<QuestionKind, string>> = {
  boolean: 'Yes or no',
  choice: 'Choice',
  score: 'Score',
  text: 'Free text',
};

export interface QuestionDraft {
  id: string;
  type: QuestionKind;
  title: string;
  /** Empty: derived from the title. */
  key: string;
  /** One per line. */
  choices: string;
  min: string;
  max: string;
  required: boolean;
}

export interface ReviewDraft {
  name: string;
  run: string | null;
  /** Empty: all variants. */
  variant: string;
  /** Empty: any result. */
  evaluator: string;
  passed: boolean;
  /** Empty: all answers. */
  sample: string;
  /** Null: those of the evaluation's `human` evaluators. */
  questions: readonly QuestionDraft[] | null;
  reviewers: number;
  blind: boolean;
}

let lastId = 0;
export const newQuestion = (fields: Partial<QuestionDraft> = {}): QuestionDraft => ({
  id: `q${++lastId}`,
  type: 'boolean',
  title: '',
  key: '',
  choices: '',
  min: '1',
  max: '5',
  required: true,
  ...fields,
});

export const initialDraft = (run: string | null): ReviewDraft => ({
  name: '',
  run,
  variant: '',
  evaluator: '',
  passed: false,
  sample: '',
  questions: [newQuestion({ title: 'Is the answer correct?', key: 'correct' })],
  reviewers: 1,
  blind: true,
});

/** `Is it correct?` becomes `is_it_correct`; keeps letters of other alphabets. */
export const slug = (title: string): string =>
  title
    .toLowerCase()
    .normalize('NFC')
    .match(/[\p{L}\p{N}]+/gu)
    ?.join('_')
    .slice(0, 60) ?? '';

export const questionKey = ({ key, title }: Pick<QuestionDraft, 'key' | 'title'>): string => key.trim() || slug(title);

export const parseChoices = (text: string): string[] => [
  ...new Set(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean),
  ),
];

/** What is missing, as text; null if the review can start. */
export function missingField({ run, sample, questions }: ReviewDraft): string | null {
  if (!run) return 'Choose an evaluation.';
  if (sample.trim() !== '' && !(Number.isInteger(Number(sample)) && Number(sample) >= 1))
    return 'The sample size must be a whole number; leave it empty for all answers.';
  if (questions?.length === 0) return 'Add a question.';
  const keys = (questions ?? []).map(questionKey);
  for (const [index, question] of (questions ?? []).entries()) {
    const error = questionError(question);
    if (error) return `Question ${index + 1}: ${error}`;
    if (keys.indexOf(keys[index] ?? '') !== index) return `Question ${index + 1}: key already in use.`;
  }
  return null;
}

function questionError(question: QuestionDraft): string | null {
  if (!questionKey(question)) return 'enter a question.';
  if (question.type === 'choice' && parseChoices(question.choices).length < 2) return 'enter at least two choices.';
  const [min, max] = [parseNumber(question.min), parseNumber(question.max)];
  return question.type === 'score' && (min === null || max === null || min >= max)
    ? 'the lowest score must be less than the highest.'
    : null;
}

const parseNumber = (text: string): number | null =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : null;

export function draftRequest(draft: ReviewDraft): ReviewRequest {
  return {
    name: draft.name.trim(),
    items: {
      run: draft.run,
      variant: draft.variant || null,
      ...(draft.evaluator ? { filter: { evaluator: draft.evaluator, passed: draft.passed } } : {}),
      ...(draft.sample.trim() ? { sample: Number(draft.sample) } : {}),
    },
    questions: draft.questions?.map(questionBody) ?? null,
    reviewers: draft.reviewers,
    blind: draft.blind,
  };
}

function questionBody(draft: QuestionDraft): NonNullable<ReviewRequest['questions']>[number] {
  const { type, title, required } = draft;
  return {
    key: questionKey(draft),
    type,
    title: title.trim(),
    required,
    ...(type === 'choice' ? { choices: parseChoices(draft.choices) } : {}),
    ...(type === 'score' ? { range: [Number(draft.min), Number(draft.max)] as [number, number] } : {}),
  };
}
