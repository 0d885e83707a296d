/** Short names for the generated types of the API. */
import type { Schemas } from './client';

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
export type Preview = Schemas['Extracted']['preview'];
export type StoredFile = Schemas['FileView'];
export type TestSet = Schemas['TestSetView'];
export type TestSetRow = Schemas['TestSetRow'];
