/** A file that is dragged over a view, and dropped there. */
import { useState, type DragEvent, type ReactNode } from 'react';

export const DropMark = (): ReactNode => (
  <div className="pointer-events-none absolute inset-3 z-30 flex items-center justify-center rounded-2xl border-2 border-dashed border-accent bg-accent-soft/80 text-base font-medium text-accent">
    Drop the file to look at it
  </div>
);

export function useDrop(onFile: (file: File) => void): { over: boolean; on: Record<'onDragEnter' | 'onDragOver' | 'onDragLeave' | 'onDrop', (event: DragEvent<HTMLElement>) => void> } {
  const [over, setOver] = useState(false);
  const hasFile = ({ dataTransfer }: DragEvent) => dataTransfer.types.includes('Files');
  const enter = (event: DragEvent<HTMLElement>) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    setOver(true);
  };
  return {
    over,
    on: {
      onDragEnter: enter,
      onDragOver: enter,
      onDragLeave: ({ currentTarget, relatedTarget }) => !currentTarget.contains(relatedTarget as Node | null) && setOver(false),
      onDrop: (event) => {
        if (!hasFile(event)) return;
        event.preventDefault();
        setOver(false);
        const [file] = event.dataTransfer.files;
        if (file) onFile(file);
      },
    },
  };
}
