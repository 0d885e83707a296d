/** Draft of a new evaluation: the choices, the request, and the field of each server error. */
import type { paths } from '@/api/schema.d';
import type { FieldError } from '@/components/forms/values';
import { capitalize } from '@/lib/format';
import type { Evaluation } from './queries';

export type EvaluationRequest = paths['/api/evaluations']['post']['requestBody']['content']['application/json'];
export type ParameterValues = Readonly<Record<string, unknown>>;

export interface VariantDraft {
  id: string;
  /** A workflow runs; a column already holds the answers. */
  kind: 'workflow' | 'column';
  name: string;
  workflow: string;
  variant: string;
  parameters: ParameterValues;
  column: string;
}

export interface EvaluatorDraft {
  id: string;
  key: string;
  name: string;
  parameters: ParameterValues;
}

/** Undefined: the server decides; null: nothing. */
export interface MapDraft {
  messages?: string | null;
  history?: string | null;
  script?: string | null;
  expected?: string | null;
  inputs?: Readonly<Record<string, string>>;
}

export interface EvaluationDraft {
  name: string;
  testset: string | null;
  revision: string;
  /** Null: all rows. */
  sample: number | null;
  variants: readonly VariantDraft[];
  evaluators: readonly EvaluatorDraft[];
  map: MapDraft;
  repeats: number;
  concurrency: number;
  timeout: number;
  retries: number;
}

export const EMPTY_DRAFT: EvaluationDraft = {
  name: '',
  testset: null,
  revision: 'head',
  sample: null,
  variants: [],
  evaluators: [],
  map: {},
  repeats: 1,
  concurrency: 10,
  timeout: 60,
  retries: 2,
};

let lastId = 0;
export const newVariant = (fields: Partial<VariantDraft>): VariantDraft => ({
  id: `v${++lastId}`,
  kind: 'workflow',
  name: '',
  workflow: '',
  variant: 'default',
  parameters: {},
  column: '',
  ...fields,
});
export const newEvaluator = (key: string): EvaluatorDraft => ({ id: `e${++lastId}`, key, name: '', parameters: {} });

/** Name of a variant that has no explicit name. */
export function variantName({ name, kind, column, workflow, variant }: VariantDraft): string {
  if (name.trim()) return name.trim();
  if (kind === 'column') return column;
  return variant === 'default' ? workflow : variant;
}

/** An unused name: `tutor`, `tutor 2`. */
export function freeName(name: string, usedNames: readonly string[]): string {
  if (!usedNames.includes(name)) return name;
  let number = 2;
  while (usedNames.includes(`${name} ${number}`)) number += 1;
  return `${name} ${number}`;
}

/**
 * A draft with the settings of an evaluation. Parameters of stored variants are copied, so that later changes don't
 * matter.
 */
export function draftFromEvaluation({
  name,
  testset,
  variants,
  evaluators,
  repeats,
  limits,
  selection,
}: Evaluation): EvaluationDraft {
  const map = variants.find(({ workflow }) => workflow)?.map ?? variants[0]?.map;
  return {
    ...EMPTY_DRAFT,
    name,
    testset: testset.id,
    sample: selection?.sample ?? null,
    variants: variants.map((variant) =>
      newVariant(
        variant.workflow
          ? { name: variant.name, workflow: variant.workflow, parameters: variant.parameters ?? {} }
          : { kind: 'column', name: variant.name, column: variant.column ?? '' },
      ),
    ),
    evaluators: evaluators.map((evaluator) => ({
      ...newEvaluator(evaluator.key),
      name: evaluator.name === evaluator.key ? '' : evaluator.name,
      parameters: evaluator.parameters ?? {},
    })),
    // The spoken column is only detected together with the messages column, and fallbacks with the expected column.
    map: {
      ...(map?.spoken == null ? { messages: map?.messages ?? null } : {}),
      history: map?.history ?? null,
      script: map?.script ?? null,
      ...(map?.expected_fallbacks?.length ? {} : { expected: map?.expected ?? null }),
    },
    repeats,
    concurrency: limits.concurrency ?? EMPTY_DRAFT.concurrency,
    timeout: limits.timeout ?? EMPTY_DRAFT.timeout,
    retries: limits.retries ?? EMPTY_DRAFT.retries,
  };
}

/** What is missing, as text; null if the evaluation can start. */
export function missingPart(draft: EvaluationDraft): string | null {
  if (!draft.testset) return 'Choose a test set.';
  if (draft.variants.length === 0) return 'Add a variant.';
  if (draft.variants.some(({ kind, column, workflow }) => !(kind === 'column' ? column : workflow)))
    return 'Choose a workflow or column for every variant.';
  return draft.evaluators.length === 0 ? 'Add an evaluator.' : null;
}

export function draftRequest(draft: EvaluationDraft): EvaluationRequest {
  const { map } = draft;
  // The generated body type allows no keys in free-form objects; send what was entered.
  const asFreeForm = (values: ParameterValues) => values as Record<string, never>;
  return {
    name: draft.name.trim(),
    testset: {
      id: draft.testset ?? '',
      revision: /^\d+$/.test(draft.revision) ? Number(draft.revision) : draft.revision,
      ...(draft.sample === null ? {} : { rows: { sample: draft.sample } }),
    },
    variants: draft.variants.map((draftVariant) =>
      draftVariant.kind === 'column'
        ? { name: variantName(draftVariant), column: draftVariant.column }
        : {
            name: variantName(draftVariant),
            workflow: draftVariant.workflow,
            ...(draftVariant.variant === 'default' ? {} : { variant: draftVariant.variant }),
            parameters: asFreeForm(draftVariant.parameters),
          },
    ),
    evaluators: draft.evaluators.map(({ key, name, parameters }) => ({
      key,
      ...(name.trim() ? { name: name.trim() } : {}),
      parameters: asFreeForm(parameters),
    })),
    map: {
      ...(map.messages === undefined ? {} : { messages: map.messages }),
      ...(map.history === undefined ? {} : { history: map.history }),
      ...(map.script === undefined ? {} : { script: map.script }),
      ...(map.expected === undefined ? {} : { expected: map.expected }),
      ...(map.inputs === undefined ? {} : { inputs: { ...map.inputs } }),
    },
    repeats: draft.repeats,
    limits: { concurrency: draft.concurrency, timeout: draft.timeout, retries: draft.retries },
  };
}

/**
 * Errors below a pointer, relative to it: `/variants/0/parameters/style` under `/variants/0` is `/parameters/style`.
 */
export const errorsUnder = (errors: readonly FieldError[], pointer: string): readonly FieldError[] =>
  errors.flatMap(({ path, message }) =>
    path === pointer || path.startsWith(`${pointer}/`) ? [{ path: path.slice(pointer.length), message }] : [],
  );

const SECTION_TITLES: Readonly<Record<string, string>> = {
  testset: 'Test set',
  map: 'Column mapping',
  limits: 'Repeats and limits',
  repeats: 'Repeats and limits',
};
const FIELD_TITLES: Readonly<Record<string, string>> = {
  id: '',
  variant: 'Saved variant',
  history: 'History',
  concurrency: 'Concurrency',
};

/** Title of a field by pointer: `Column mapping, Messages`, `Evaluator regex, pattern`. */
export function fieldTitle(path: string, evaluators: readonly EvaluatorDraft[]): string {
  const [part = '', ...steps] = path
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const index = Number(steps[0]);
  const { name = '', key = '' } = evaluators[index] ?? {};
  const title =
    part === 'variants'
      ? `Variant ${index + 1}`
      : part === 'evaluators'
        ? `Evaluator ${name.trim() || key || index + 1}`
        : SECTION_TITLES[part];
  const [first = '', detail] =
    part === 'repeats' ? [part] : part === 'variants' || part === 'evaluators' ? steps.slice(1) : steps;
  // Parameters and inputs keep their names; titles of the form are capitalized.
  const field = first === 'parameters' || first === 'inputs' ? detail : (FIELD_TITLES[first] ?? capitalize(first));
  return [title, field].filter(Boolean).join(', ');
}

/** Errors that no field of the form shows. */
export const errorsWithoutField = (errors: readonly FieldError[]): readonly FieldError[] =>
  errors.filter(({ path }) => !/^\/(?:testset|variants\/\d+|evaluators\/\d+|map|limits|repeats)(?:\/|$)/.test(path));
