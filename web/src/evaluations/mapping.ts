/** Where the columns of a test set go when nobody says: as the server finds it out, to be shown before. Pure. */
import type { Workflow } from '@/api/types';
import { isObject } from '@/components/forms/json-schema';
import type { MapDraft } from './draft';
import type { NamedColumn } from './queries';

const EXPECTED = ['expected', 'expected_output', 'correct_answer', 'ground_truth', 'reference'];
/** Kinds of columns that can be what is said to a chat. */
const SPOKEN: ReadonlySet<string> = new Set(['chat', 'message', 'text', 'mixed']);

/** What a column of texts is usually called that is what the user says; as in evaluation/planning/spoken.py. */
const WORDS = ['question', 'input', 'prompt', 'query', 'message', 'user_message', 'user_input', 'text', 'q', 'user'];
const ANSWERS: ReadonlySet<string> = new Set([...EXPECTED, 'answer', 'output', 'response', 'completion']);
/** Where a column holds what was said in full, nobody guesses at another. */
const TOLD: ReadonlySet<string> = new Set(['chat', 'message', 'script']);

export interface Mapping {
  messages: string | null;
  /** What was said before. */
  history: string | null;
  script: string | null;
  /** What the user says in a row that has neither messages nor a script. */
  spoken: string | null;
  expected: string | null;
  /** By the input's name, its column. */
  inputs: Readonly<Record<string, string>>;
}

type Described = Pick<Workflow, 'is_chat' | 'schemas'>;

/** The names of a workflow's inputs, without the messages of a chat. */
export function inputNames({ is_chat: isChat, schemas }: Described): string[] {
  const properties = propertiesOf(schemas.inputs);
  return Object.keys(properties).filter((name) => !(isChat && (name === 'messages' || isMarked(properties[name]))));
}

export const canBeSaid = ({ kind }: NamedColumn): boolean => SPOKEN.has(kind);

/** What is found for a workflow, beside what was said; `answers` are columns that hold answers already. */
export function mapped(columns: readonly NamedColumn[], workflow: Described | null, answers: readonly string[] = [], said: MapDraft = {}): Mapping {
  const names = columns.map(({ name }) => name);
  const expected = EXPECTED.find((name) => names.includes(name)) ?? null;
  const isChat = workflow?.is_chat ?? true;
  const scripts = columns.filter(({ kind }) => kind === 'script').map(({ name }) => name);
  const script = isChat ? (scripts.includes('script') ? 'script' : only(scripts)) : null;
  const properties = workflow ? propertiesOf(workflow.schemas.inputs) : {};
  const holds = { expected: either(said.expected, expected), script: either(said.script, script) };
  const placed = new Set([holds.expected, said.history, ...Object.values(said.inputs ?? {}), ...answers, ...Object.keys(properties)]);
  const certain = isChat ? foundMessages(columns, properties) : null;
  const messages = certain ?? (isChat && holds.script === null ? spoken(columns, placed) : null);
  const isPayload = either(said.messages, messages) === 'content' && names.includes('history') && !Object.hasOwn(properties, 'history');
  const history = isPayload ? 'history' : null;
  const isOpen = workflow?.schemas.inputs?.['additionalProperties'] !== false;
  const taken = new Set([holds.expected, holds.script, either(said.messages, messages), either(said.history, history), ...answers.filter((name) => !Object.hasOwn(properties, name))]);
  const free = names.filter((name) => !taken.has(name) && (Object.hasOwn(properties, name) || isOpen));
  const told = said.messages === undefined && messages === certain ? columns.filter(({ name }) => name === messages || name === holds.script) : [];
  const hasGaps = told.length > 0 && told.every(({ missing, nulls }) => missing + nulls > 0);
  const instead = hasGaps ? (called(columns, new Set([...placed, ...taken]))[0] ?? null) : null;
  return { messages, history, script, spoken: instead, expected, inputs: Object.fromEntries(free.map((name) => [name, name])) };
}

/** What was said holds, also that it is nothing. */
export const either = (said: string | null | undefined, found: string | null): string | null => (said === undefined ? found : said);

function foundMessages(columns: readonly NamedColumn[], properties: Readonly<Record<string, unknown>>): string | null {
  const marked = Object.keys(properties).filter((name) => isMarked(properties[name]));
  const byName = [...marked, 'messages'].find((name) => columns.some((one) => one.name === name)) ?? null;
  // As in the payload of a service: the one column of conversations may be what came before.
  const content = columns.some((one) => one.name === 'content' && canBeSaid(one)) && !Object.hasOwn(properties, 'content') ? 'content' : null;
  return byName ?? content ?? only(columns.filter(({ kind }) => kind === 'chat').map(({ name }) => name));
}

/** The column with a usual name, else the only one of texts that is neither taken nor called as answers are. */
function spoken(columns: readonly NamedColumn[], taken: ReadonlySet<string | null | undefined>): string | null {
  if (columns.some(({ kind }) => TOLD.has(kind))) return null;
  return called(columns, taken)[0] ?? only(textsOf(columns, taken).filter((name) => !ANSWERS.has(name.toLowerCase())));
}

/** The columns of texts with a usual name, the likeliest first. */
function called(columns: readonly NamedColumn[], taken: ReadonlySet<string | null | undefined>): string[] {
  const texts = textsOf(columns, taken);
  return WORDS.flatMap((word) => texts.filter((name) => name.toLowerCase() === word));
}

const textsOf = (columns: readonly NamedColumn[], taken: ReadonlySet<string | null | undefined>): string[] =>
  columns.filter(({ name, kind }) => kind === 'text' && !taken.has(name)).map(({ name }) => name);

const only = (names: readonly string[]): string | null => (names.length === 1 ? (names[0] ?? null) : null);

function propertiesOf(schema: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  return isObject(schema?.['properties']) ? schema['properties'] : {};
}

const isMarked = (schema: unknown): boolean => isObject(schema) && schema['x-ag-type-ref'] === 'messages';
