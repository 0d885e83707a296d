/**
 * Typed client of the REST API. Paths, parameters, bodies and responses come from /openapi.json (schema.d.ts is
 * generated).
 */
import { serverPath } from '@/lib/server-path';
import type { components, paths } from './schema.d';

export type Schemas = components['schemas'];
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P][M];
type PathParameters<O> = O extends { parameters: { path: infer X extends object } } ? { path: X } : { path?: never };
type Query<O> = O extends { parameters: { query?: infer X } } ? { query?: X } : { query?: never };
type Body<O> = O extends { requestBody?: { content: { 'application/json': infer X } } }
  ? { body?: X }
  : { body?: unknown };
type Responses<O> = O extends { responses: infer R } ? R : never;
type SuccessResponse<R> =
  R extends Record<200, infer X> ? X : R extends Record<201, infer X> ? X : R extends Record<202, infer X> ? X : never;
export type ResponseBody<P extends keyof paths, M extends Method> =
  SuccessResponse<Responses<Operation<P, M>>> extends { content: { 'application/json': infer X } } ? X : void;
/** Distributes over the operations; on all of them at once the compiler would multiply the types. */
type RequestOptions<O> = O extends unknown
  ? PathParameters<O> & Query<O> & Body<O> & { headers?: Record<string, string>; signal?: AbortSignal }
  : never;

/** An error response: a message for people, a stable code for programs. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly path?: string,
    readonly details?: unknown,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

export async function api<M extends Method, P extends PathsWith<M>>(
  method: M,
  path: P,
  options: RequestOptions<Operation<P, M>>,
): Promise<ResponseBody<P, M>> {
  const { body, signal, headers } = options;
  const response = await fetchOk(buildUrl(String(path), options.path ?? {}, options.query ?? {}), {
    method: method.toUpperCase(),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  // The only cast from wire to type: the OpenAPI document guarantees it.
  return (response.status === 204 ? undefined : await response.json()) as ResponseBody<P, M>;
}

/**
 * Fetch a path of this server. Throws an ApiError unless the status is 2xx. For responses that are not JSON (files,
 * exports).
 */
export async function fetchOk(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(serverPath(path), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', 'Cannot reach the server. Is it still running?');
  }
  if (!response.ok) throw await readError(response);
  return response;
}

/** Parse the error of a failed response. */
export async function readError(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const error = (
      JSON.parse(text) as { error?: { code?: string; message?: string; path?: string; details?: unknown } }
    ).error;
    if (error?.message)
      return new ApiError(response.status, error.code ?? 'unknown', error.message, error.path, error.details);
  } catch {
    // Not JSON: some routes send errors as plain text.
  }
  return new ApiError(
    response.status,
    'unknown',
    text.slice(0, 500) || `The server responded with status ${response.status}.`,
  );
}

function buildUrl(path: string, parameters: object, query: object): string {
  const resolvedPath = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String((parameters as Record<string, unknown>)[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  return search.size ? `${resolvedPath}?${search}` : resolvedPath;
}

/** Short names for the generated types of the API. */
export type Workflow = Schemas['WorkflowView'];
export type WorkflowRow = Schemas['WorkflowRow'];
export type Board = Schemas['BoardView'];
export type Column = Schemas['BoardColumn'];
export type Row = Schemas['BoardRow'];
export type Cell = Schemas['Cell'];
export type Thread = Schemas['ThreadView'];
export type ThreadRow = Schemas['ThreadSummary'];
export type Node = Schemas['NodeView'];
export type Part = Node['parts'][number];
export type Run = Schemas['RunView'];
export type Variant = Schemas['VariantView'];
export type Preview = Schemas['ExtractionResult']['preview'];
export type StoredFile = Schemas['FileView'];
export type TestSet = Schemas['TestSetView'];
export type TestSetRow = Schemas['TestSetRow'];
