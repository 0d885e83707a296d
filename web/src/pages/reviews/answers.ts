/** Answers of reviews: options, parsing, formatting and agreement. */
import { formatScore } from '@/pages/evaluations/format';
import type { ReviewQuestion, Agreement } from './queries';

export type Answers = Readonly<Record<string, unknown>>;

export interface AnswerOption {
  value: boolean | string | number;
  label: string;
  /** Key that chooses it; null after the ninth. */
  shortcut: string | null;
}

/** Scores with more steps are typed. */
const MAX_SCORE_OPTIONS = 11;

/** Options of a question; null if the answer is typed. */
export function answerOptions({ type = 'boolean', choices, range }: ReviewQuestion): readonly AnswerOption[] | null {
  switch (type) {
    case 'boolean':
      return [
        { value: true, label: 'Yes', shortcut: '1' },
        { value: false, label: 'No', shortcut: '2' },
      ];
    case 'choice':
      return (choices ?? []).map((label, index) => ({
        value: label,
        label,
        shortcut: index < 9 ? String(index + 1) : null,
      }));
    case 'score': {
      const [min, max] = range ?? [0.5, 0];
      if (!Number.isInteger(min) || !Number.isInteger(max) || max - min + 1 > MAX_SCORE_OPTIONS || max < min)
        return null;
      // The shortcut of a score is its digit.
      return Array.from({ length: max - min + 1 }, (_, offset) => min + offset).map((value) => ({
        value,
        label: formatScore(value),
        shortcut: value >= 0 && value <= 9 ? String(value) : null,
      }));
    }
    case 'text':
      return null;
    default:
      return null;
  }
}

export const questionTitle = ({ title, key }: Pick<ReviewQuestion, 'title' | 'key'>): string => title?.trim() || key;

/** Parse a score; returns an error text if it is no number or out of range. */
export function parseScore(text: string, range: ReviewQuestion['range']): number | string {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (!Number.isFinite(value)) return 'Enter a number.';
  if (range && (value < range[0] || value > range[1])) return `Enter a number from ${range[0]} to ${range[1]}.`;
  return value;
}

/** Next unanswered question after `from`, wrapping around. */
export function firstUnanswered(questions: readonly ReviewQuestion[], answers: Answers, from = 0): number | null {
  const order = questions.map((_, index) => (index + from) % questions.length);
  return order.find((index) => !Object.hasOwn(answers, questions[index]?.key ?? '')) ?? null;
}

/** Required questions without an answer. */
export const missingAnswers = (questions: readonly ReviewQuestion[], answers: Answers): readonly ReviewQuestion[] =>
  questions.filter(({ key, required }) => (required ?? true) && !Object.hasOwn(answers, key));

export function formatAnswer(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (typeof value === 'number') return formatScore(value);
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** Usual name of a kappa (Landis and Koch, 1977). */
export function describeKappa(kappa: number): string {
  if (kappa < 0) return 'worse than chance';
  if (kappa <= 0.2) return 'slight';
  if (kappa <= 0.4) return 'fair';
  if (kappa <= 0.6) return 'moderate';
  return kappa <= 0.8 ? 'substantial' : 'almost perfect';
}

/** Agreement on one question, over all pairs of reviewers. */
export interface AgreementSummary {
  question: string;
  /** Share of items that both answered alike. */
  percent: number;
  /** Mean over pairs weighted by items; null without any. */
  kappa: number | null;
}

/** Only pairs of reviewers count, not judges. */
export function summarizeAgreement(agreements: readonly Agreement[]): AgreementSummary[] {
  const reviewerPairs = agreements.filter(({ kind, n }) => kind === 'reviewers' && n > 0);
  return [...new Set(reviewerPairs.map(({ question }) => question))].map((question) => {
    const pairs = reviewerPairs.filter((pair) => pair.question === question);
    const weighted = pairs.flatMap(({ kappa, n }) => (kappa === null ? [] : [{ value: kappa, n }]));
    return {
      question,
      percent: weightedMean(pairs.map(({ percent, n }) => ({ value: percent ?? 0, n }))),
      kappa: weighted.length > 0 ? weightedMean(weighted) : null,
    };
  });
}

const weightedMean = (values: readonly { value: number; n: number }[]): number =>
  values.reduce((sum, { value, n }) => sum + value * n, 0) / values.reduce((sum, { n }) => sum + n, 0);
